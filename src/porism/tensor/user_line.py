"""User line: the line of the user's program that an error is about, for functions on tensors."""

from porism.base.user_frames import is_inside, users_line

__all__ = ["is_inside", "users_line"]
