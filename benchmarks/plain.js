// The plain way to get the words out of a transcript: read it whole, split it into lines, parse each, join the texts.
// Prints what it found as one line of JSON. From about half a gigabyte on, V8 refuses to make the string.
const { readFileSync } = require('node:fs')

const texts = []
let lines = 0
for (const line of readFileSync(process.argv[2], 'utf8').split('\n')) {
  if (!line) continue
  lines += 1
  const entry = JSON.parse(line)
  if (entry.type !== 'user' && entry.type !== 'assistant') continue
  const content = entry.message.content
  if (typeof content === 'string') texts.push(content)
  else for (const block of content) if (block.type === 'text') texts.push(block.text)
}
const joined = texts.join('')
console.log(JSON.stringify({ lines, texts: texts.length, text_bytes: Buffer.byteLength(joined, 'utf8') }))
