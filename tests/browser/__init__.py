"""Pages and widgets in a real Chromium."""
