"""The file that all modules of a folder share: generated code, as it is written."""
