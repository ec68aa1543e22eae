"""What can be asked, a folder for each subject. Edges call it."""
