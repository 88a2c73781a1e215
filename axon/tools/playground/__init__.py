"""A page on which programs are checked as they are typed: the checker runs in the browser, in Pyodide."""
