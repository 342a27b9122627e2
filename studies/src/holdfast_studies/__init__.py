"""What we did with holdfast: studies of four papers, of real models, and of undo and deciding; each with its page."""
