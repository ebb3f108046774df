// An agent of Vercel's AI SDK with the default model of its OpenAI provider: whole, streamed, and gone on from.
import { createOpenAI } from '@ai-sdk/openai'
import { generateText, stepCountIs, streamText, tool } from 'ai'
import { z } from 'zod'

const openai = createOpenAI({ baseURL: process.env.OPENAI_BASE_URL, apiKey: process.env.OPENAI_API_KEY })
const weather = tool({
  description: 'What the sky does.',
  inputSchema: z.object({ city: z.string() }),
  execute: async ({ city }) => `rain in ${city}`,
})
const settings = { model: openai('m'), system: 'Be brief.', tools: { weather }, stopWhen: stepCountIs(5) }
const asked = { role: 'user', content: 'How warm?' }
const sure = { role: 'user', content: 'Sure?' }

const first = await generateText({ ...settings, messages: [asked] })
const again = await generateText({ ...settings, messages: [asked, ...first.responseMessages, sure] })
const streamed = streamText({ ...settings, messages: [asked] })
let words = ''
for await (const piece of streamed.textStream) words += piece
const steps = await streamed.steps
const previous = steps.at(-1).providerMetadata.openai.responseId
const options = { openai: { previousResponseId: previous } }
const later = await generateText({ ...settings, messages: [sure], providerOptions: options })
const shown = steps.flatMap((step) => step.toolCalls).length
console.log(JSON.stringify({ said: [first.text, again.text, words, later.text], shown }))
