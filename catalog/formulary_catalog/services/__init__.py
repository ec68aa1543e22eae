"""The answers, a folder for each subject. Operations call them."""
