heddle profile 3
machine none: all is pulled
each pushed 1000 1000 1000 1000
each pulled 1 1 1 1
same pushed 1000 1000 1000 1000
same pulled 1 1 1 1
far windows 1000 1000 1000 1000
far long windows 900 900 900 900
far kernel 1 1 1 1
copied plainly 1000 1000 1000 1000
copied string 10 1000 1000 1000
copied streaming 1000 1 1 1
copied pages 1000 1 2 2
