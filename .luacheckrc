-- Scripts run inside Redis: Lua 5.1 without access to files and modules, with the globals of Redis.
std = "lua51"
not_globals = { "dofile", "io", "loadfile", "module", "require" }
read_globals = { "ARGV", "KEYS", "bit", "cjson", "cmsgpack", "redis", "struct" }
max_line_length = 120
