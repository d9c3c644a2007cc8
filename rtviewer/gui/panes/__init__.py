"""One dock each. A pane reads the session and calls its verbs; it holds no truth and knows no other pane."""
