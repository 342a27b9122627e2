"""[001] on a model that writes code: pools of programs and replies, every way of choosing among them, and what it costs."""
