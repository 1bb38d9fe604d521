// Words and joints that stand in no list of the server's sentences: units, names of figures, counts
// with their nouns, texts that are put together of several, and what the panel itself says as an error.

export const words: Record<string, string> = {
  'warm-up': '预热', steady: '稳态', drain: '排空',
  '{} and {}': '{1} 和 {2}', '{} requests/s': '{1} 请求/秒', '{} users and {} requests/s, {}': '{1} 个用户与 {2} 请求/秒，{3}',
  'unknown field: want one of {}': '未知字段：须为以下之一：{1}',
  'not YAML: {}': 'YAML 有误：{1}', 'not YAML: {}; close it, or put a value with [ ] { } or , in it in quotes': 'YAML 有误：{1}；请闭合，或将含 [ ] { } 或 , 的值放进引号',
  'the server does not answer': '服务器没有响应', 'is plimsoll still running?': 'plimsoll 是否仍在运行？', 'the answer is not JSON': '响应不是 JSON',
  rung: '档位', users: '用户', streams: '流', requests: '请求', tokens: 'token', times: '倍', points: '百分点', events: '事件', upload: '上传', connect: '连接', connections: '连接数', failures: '失败',
  bandwidth: '带宽', knee: '拐点', bend: '弯折', base: '基础', flat: '平段', slope: '斜率', stall: '停顿', cache: '缓存', capacity: '容量', sequences: '序列', spread: '差异', mixed: '混合', step: '单步', way: '途中', prompt: '提示',
  '{} users': '{1} 个用户', '{} streams': '{1} 个流', '1 stream': '1 个流', '{} requests': '{1} 个请求', '1 request': '1 个请求', '{} prefills': '{1} 次预填充', '1 prefill': '1 次预填充', '{} answers': '{1} 个回答', '1 answer': '1 个回答',
  '{} lengths': '{1} 种长度', '1 length': '1 种长度', '{} sequences': '{1} 个序列', '1 sequence': '1 个序列', '{} standstills': '{1} 次停顿', '1 standstill': '1 次停顿', 'ms/user': 'ms/用户', 'ms/token': 'ms/token', 'tokens/s': 'token/s',
}
