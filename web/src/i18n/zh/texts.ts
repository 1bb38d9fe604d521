// Texts of the server that have no code, by what they are in English. {} is a hole, and the nth
// of them is {n} in Chinese.

export const texts: Record<string, string> = {
  '1 user': '1 个用户',
  '{} users': '{1} 个用户',
  '{} requests/s, {}': '{1} 请求/秒，{2}',
  '{} requests/s': '{1} 请求/秒',
  'warm-up': '预热',
  steady: '稳态',
  drain: '排空',
}
