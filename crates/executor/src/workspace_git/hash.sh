# Stores the files that paths.txt names, one quoted path a line, byte by byte, and prints their objects.
own hash-object -w --no-filters --stdin-paths <paths.txt
