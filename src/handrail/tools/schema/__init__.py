"""The one validator for arguments and results, whatever the tool came from."""
