-- Scripts run inside Redis: Lua 5.1, less what reaches out of the server, plus what Redis brings.
std = "lua51"
not_globals = { "dofile", "io", "loadfile", "module", "require" }
read_globals = { "ARGV", "KEYS", "bit", "cjson", "cmsgpack", "redis", "struct" }
max_line_length = 120
