"""What a run will need, before it starts: parameters, operations, memory, disk, hours; and a try of its full size."""
