"""What a person can do with Treadle, as plain functions: typed values in, typed values out.

Nothing here prints, parses options or ends the process. The command line, the chat and any other
program call the same functions.
"""
