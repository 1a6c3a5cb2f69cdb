"""One HTML page about a run or a sweep, made from what lies in its folder. Imports no torch."""
