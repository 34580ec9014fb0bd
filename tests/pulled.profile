heddle profile 1
machine none: all is pulled
each pushed 1000 1000 1000 1000
each pulled 1 1 1 1
same pushed 1000 1000 1000 1000
same pulled 1 1 1 1
