"""The dual problem as mathematics: its statement, one block, faces, the Newton step on a face."""
