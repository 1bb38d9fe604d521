// Words and joints that stand in no list of the server's sentences: units, names of figures, counts
// with their nouns, texts that are put together of several, and what the panel itself says as an error.

export const words: Record<string, string> = {
  'warm-up': '预热', steady: '稳态', drain: '排空',
  '{} requests/s': '{1} 请求/秒', '{} users and {} requests/s, {}': '{1} 个用户与 {2} 请求/秒，{3}',
  '{} sessions/s': '{1} 会话/秒', '{} sessions/s {}': '{1} 会话/秒 {2}', '{} sessions/s {}, at most {} in flight': '{1} 会话/秒 {2}，最多 {3} 个同时进行', '{} users and {} sessions/s, {}': '{1} 个用户与 {2} 会话/秒，{3}',
  scheduled: '计划', start: '开始', sent: '已发送', headers: '响应头', first_event: '首个事件', first_token: '首个 token', first_content: '首个内容', last_token: '末个 token', end: '结束', connected: '已连接', rate: '速率', mean: '均值',
  'dial tcp {}: connect: connection refused': '连接 {1} 被拒绝', 'connect to {}: connect: connection refused': '连接 {1} 被拒绝',
  '{} of the last {} requests were refused, more than max-error-share {} allows; the last refusal: {}': '最近 {2} 个请求中有 {1} 个被拒绝，超过 max-error-share {3} 允许的比例；最后一次：{4}',
  default: '默认值', drawn: '随机抽取', 'the probe {}': '探测 {1}', 'the ladder of {}': '{1} 的阶梯', interrupted: '已中断', cancelled: '已取消', incomplete: '不完整', ok: '成功', error: '失败',
  achieved: '实际速率', completed: '完成速率', goodput: '有效吞吐', attainment: '达标比例', offered: '要求速率', errors: '失败数', error_share: '失败比例', metric: '指标', statistic: '统计量', ':': '：',
  'find model {}: no such name in the catalogue; nearest: {}': '查找模型 {1}：目录中没有；相近的有：{2}',
  '{} in {} on {}, {} KV tokens, context {}': '{1}，{2}，运行于 {3}，KV {4} token，上下文 {5}',
  '{} in {} does not fit {}: of {} on each the engine may use {}, weights take {}, activations {}, graphs and libraries {}, which {}; {}': '{1}（{2}）放不进 {3}：每张卡 {4} 中引擎可用 {5}，权重占 {6}，激活 {7}，计算图与库 {8}，{9}；{10}',
  'leaves {} for keys and values': '只给 KV 留下 {1}', 'is {} too much, without any keys and values': '尚未计入 KV 就超出 {1}',
  'tp {} does not divide the {} attention heads of {}; use one of {}': 'tp {1} 不能整除 {3} 的 {2} 个注意力头；请用以下之一：{4}',
  'unknown field: want one of {}': '未知字段：须为以下之一：{1}',
  'not YAML: {}': 'YAML 有误：{1}', 'not YAML: {}; close it, or put a value with [ ] { } or , in it in quotes': 'YAML 有误：{1}；请闭合，或将含 [ ] { } 或 , 的值放进引号',
  'not YAML: {}; put a text that begins with it in quotes': 'YAML 有误：{1}；以它开头的文本请放进引号', 'not YAML: {}; put a text that begins with ! in quotes': 'YAML 有误：{1}；以 ! 开头的文本请放进引号',
  'not YAML: {}; put a text with a colon and a blank in it in quotes': 'YAML 有误：{1}；含冒号加空格的文本请放进引号',
  'the server does not answer': '服务器没有响应', 'is plimsoll still running?': 'plimsoll 是否仍在运行？', 'the answer is not JSON': '响应不是 JSON',
  rung: '档位', users: '用户', streams: '流', requests: '请求', tokens: 'token', times: '倍', points: '百分点', events: '事件', upload: '上传', connect: '连接', connections: '连接数', failures: '失败',
  bandwidth: '带宽', knee: '拐点', bend: '弯折', base: '基础', flat: '平段', slope: '斜率', stall: '停顿', cache: '缓存', capacity: '容量', sequences: '序列', spread: '差异', mixed: '混合', step: '单步', way: '途中', prompt: '提示',
  '{} users': '{1} 个用户', '{} streams': '{1} 个流', '1 stream': '1 个流', '{} requests': '{1} 个请求', '1 request': '1 个请求', '{} prefills': '{1} 次预填充', '1 prefill': '1 次预填充', '{} answers': '{1} 个回答', '1 answer': '1 个回答',
  '{} lengths': '{1} 种长度', '1 length': '1 种长度', '{} sequences': '{1} 个序列', '1 sequence': '1 个序列', '{} standstills': '{1} 次停顿', '1 standstill': '1 次停顿', 'ms/user': 'ms/用户', 'ms/token': 'ms/token', 'tokens/s': 'token/s',
  // What Go's reader of JSON says, within why a file of a run cannot be read.
  'unexpected end of JSON input': 'JSON 不完整', 'invalid character {} in string literal': '字符串中有无效字符 {1}',
  'invalid character {} looking for beginning of value': '值的开头是无效字符 {1}', 'invalid character {} looking for beginning of object key string': '键的开头是无效字符 {1}', 'invalid character {} after {}': '{2} 之后有无效字符 {1}',
}
