"""The matrix on a real model: requests and task data by path, answers made at run time, judges instead of an oracle."""
