"""The command line. `uclearn --help` says what there is; `app` lists the commands."""
