"""The data model in a few lines, for a program that has never heard of us."""

import sys

import redis

port, step, identifier = int(sys.argv[1]), sys.argv[2], sys.argv[3]
server = redis.Redis(port=port)
READ, WRITE = "readlock:invoice:42", "writelock:invoice:42"
STEPS = {
    "acquire read": """
        if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
        redis.call('SADD', KEYS[1], ARGV[1])
        return 1""",
    "release read": "return redis.call('SREM', KEYS[1], ARGV[1])",
    "acquire write": """
        if redis.call('EXISTS', KEYS[1], KEYS[2]) > 0 then return 0 end
        redis.call('SET', KEYS[2], ARGV[1])
        return 1""",
    "release write": """
        if redis.call('GET', KEYS[2]) ~= ARGV[1] then return 0 end
        return redis.call('DEL', KEYS[2])""",
}
print(server.register_script(STEPS[step])(keys=[READ, WRITE], args=[identifier]))
