"""What a host has: its cards, its cores, what each can do, and what would go wrong there."""
