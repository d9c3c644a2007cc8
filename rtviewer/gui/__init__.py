"""The window: everything that needs Qt or OpenGL. It shows what the session tells and calls the session's verbs."""
