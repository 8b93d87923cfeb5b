"""``python -m hopfeed.launch``: the program hopfeed-launch."""

from hopfeed.launch.main import main

main()
