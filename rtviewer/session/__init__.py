"""The application without Qt: settings, documents, jobs, and every verb a user has.

Window, command line and Python API are three faces of it.
"""
