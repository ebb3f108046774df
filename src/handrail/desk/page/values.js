/**
 * What the node tells, as types: the values of handrail/desk, field by field (a test compares them). A field
 * that has its default is not sent, so those are optional here. Times are milliseconds since 1970; texts are as they
 * came, and whoever shows them makes them harmless (text.js).
 */

/**
 * @typedef {"ok" | "unknown_tool" | "invalid_arguments" | "forbidden" | "denied" | "needs_confirmation" | "timeout" |
 *   "failed" | "cancelled" | "in_doubt" | "limit"} Outcome
 */
/** @typedef {"idle" | "working" | "waiting" | "failed"} State */

/**
 * A conversation in a list.
 * @typedef {object} ConversationSummary
 * @property {string} id
 * @property {string} title
 * @property {number} created
 * @property {number} updated
 * @property {number} messages
 * @property {State} [state]
 * @property {string | null} [forked_from]
 * @property {string} [excerpt] Where a search found its words.
 */

/**
 * A text that may be too long to be shown at once.
 * @typedef {object} ClippedText
 * @property {string} text
 * @property {number} [whole] Characters of all of it, where this is only its beginning; `Desk.whole` has the rest.
 */

/**
 * An attachment of a message or of a result: never its bytes.
 * @typedef {object} ItemAttachment
 * @property {string} name
 * @property {string} media_type
 * @property {number} [size]
 * @property {string} [url]
 */

/**
 * A call that the service of the model ran itself. Nothing of it ran here.
 * @typedef {object} ShownServiceCall
 * @property {string} id
 * @property {string} name
 * @property {any} [arguments] Secrets masked, long texts cut.
 * @property {string} [written] The same as JSON, where `arguments` cannot say it exactly.
 * @property {ClippedText | null} [result] Null if the service does not show it.
 * @property {boolean} [failed]
 */

/**
 * One source in the list below a reply.
 * @typedef {object} FootnoteSource
 * @property {number} number
 * @property {string} [title]
 * @property {string} [url] As the service wrote it; only if `host` is set may it be made a link.
 * @property {string} [host] Where the address leads, if it is one of http or https.
 * @property {string} [quote]
 */

/**
 * A number in the text.
 * @typedef {object} FootnoteMark
 * @property {number} at The character before which it stands.
 * @property {number} number
 */

/**
 * A message of a conversation. A call and its result are two, with one `call_id`.
 * @typedef {object} ConversationItem
 * @property {number} index
 * @property {"user" | "assistant" | "supervisor" | "document" | "call" | "result"} kind
 * @property {number} [at]
 * @property {ClippedText | null} [text] Of a call nothing; of a result its content, JSON spread over lines.
 * @property {ItemAttachment[]} [parts]
 * @property {string} [name] Of a document; of a call or result the tool, as `io:write_file`.
 * @property {string} [model]
 * @property {[number, number] | null} [tokens] In and out, of a reply.
 * @property {number | null} [cost]
 * @property {string} [call_id]
 * @property {any} [arguments] Of a call: an object, or the text that was none; secrets masked.
 * @property {string} [written] The same as JSON, where `arguments` cannot say it exactly: with a number that a browser would round.
 * @property {Outcome | null} [outcome]
 * @property {string} [error] The code of a failed result.
 * @property {number | null} [duration_us]
 * @property {string | null} [reused_from]
 * @property {string[]} [notes] What else there is to say of a result, as that a person changed the arguments.
 * @property {boolean} [side_effects]
 * @property {FootnoteSource[]} [sources] Of a reply: what it cites.
 * @property {FootnoteMark[]} [marks] Where the numbers of the sources stand in all of its text.
 * @property {number} [more_sources] How many sources are not listed.
 * @property {ShownServiceCall[]} [service_calls] Of a reply: what its service ran.
 */

/**
 * What a rule holds one argument to, with every letter that could deceive written as an escape.
 * @typedef {object} RuleValue
 * @property {string} name
 * @property {string} value
 * @property {boolean} [inside] Whether it is a folder, and anything in it fits; else only the value itself does.
 */

/**
 * A rule that `always` may set, as facts for a sentence. It holds until a person takes it back, and only while the tool
 * stays as it is.
 * @typedef {object} RuleOffer
 * @property {string} rule As it is written, with the digest of the tool's definition.
 * @property {string} tool
 * @property {RuleValue[]} [values]
 * @property {string[]} [free] The arguments of the call that may be anything.
 */

/**
 * Something waits for a person's word. This is exactly what will run.
 * @typedef {object} DeskQuestion
 * @property {string} request
 * @property {string} conversation Of the conversation that it is in; a tool that is tried out has an id of its own. Empty
 *   if another program asked it, as an MCP proxy: then it can be allowed or denied, and nothing in it can be changed.
 * @property {string} run
 * @property {string} call_id
 * @property {string} tool
 * @property {string} description
 * @property {Record<string, any>} arguments Secrets masked. For programs: numbers that a browser would round are texts.
 * @property {string} [written] The same for people, as JSON: exactly what will run, but for secrets. One that is still
 *   masked in an edit means the secret as it is.
 * @property {Record<string, any>} [input_schema]
 * @property {string} [why] Why a person is asked although a standing rule may cover the call.
 * @property {string[]} [rules] Rules that `always` may set, the narrowest first, as `allow io:write_file@sha256:…
 *   path=docs/x.md`.
 * @property {RuleOffer[]} [offers] The same rules, as what a person reads before they choose one.
 * @property {Record<string, any> | null} [form] A schema where values are asked for and no word (an MCP server's
 *   elicitation).
 * @property {string} [unseen] Why it can only be denied: what would run cannot be shown.
 */

/**
 * A call that is being written or made.
 * @typedef {object} LiveCall
 * @property {string} call_id
 * @property {string} name
 * @property {string} [written] The text of its arguments as far as it has come; of a whole call as in `ConversationItem`.
 * @property {any} [arguments] Once it is whole.
 * @property {"writing" | "asked" | "running" | "done"} [stage]
 * @property {number} [begun]
 * @property {number | null} [current]
 * @property {number | null} [total]
 * @property {string} [says] What it says of its progress.
 * @property {Outcome | null} [outcome]
 * @property {string} [error]
 * @property {ClippedText | null} [result]
 * @property {number | null} [duration_us]
 * @property {string[]} [notes]
 * @property {boolean} [side_effects]
 * @property {string} [run] Of a tool that is tried: where it is in the record.
 */

/**
 * What of the turn under way is in no message yet.
 * @typedef {object} LiveTurn
 * @property {string} [text]
 * @property {string} [reasoning]
 * @property {LiveCall[]} [calls]
 * @property {string[]} [notices]
 * @property {string} [model]
 * @property {number} [begun]
 * @property {ShownServiceCall[]} [service_calls]
 */

/**
 * A tool or a turn failed: said at once, with how to go on.
 * @typedef {object} Alert
 * @property {string} id
 * @property {string} conversation
 * @property {number} at
 * @property {"tool" | "model" | "limit" | "stopped"} kind
 * @property {string} message
 * @property {string} [tool]
 * @property {string} [call_id]
 * @property {Outcome | null} [outcome]
 * @property {string} [code]
 * @property {number} [upto] `undo` to here takes back the turn that it happened in; the words of that turn can then
 *   be edited.
 * @property {string} [words] What the person had said in that turn.
 */

/**
 * A conversation as it is now: its last messages, and what is under way.
 * @typedef {object} ConversationSnapshot
 * @property {string} id
 * @property {string} title
 * @property {State} state
 * @property {number} total
 * @property {ConversationItem[]} items The last ones; `items[0].index` says from where.
 * @property {number} cursor Events after this number are news.
 * @property {string} model
 * @property {string[] | null} [ensembles] Which of them are offered; None is all.
 * @property {string[]} [off] Tools that are switched off, by their scoped names.
 * @property {LiveTurn | null} [live]
 * @property {DeskQuestion[]} [questions]
 * @property {Alert | null} [alert] The failure that a person has not answered yet.
 * @property {string} [run] In the record.
 * @property {string | null} [forked_from]
 */

/**
 * One event of a conversation, as everybody who follows it is told.
 * @typedef {object} ConversationEvent
 * @property {number} n
 * @property {string} type `text`, `reasoning`, `call`, `service_call`, `notice`, `question`, `answered`, `state`, `items`, `alert`,
 *   `about`, `gone`.
 * @property {any} [data] text, reasoning, notice: {"text"}. call: a `LiveCall`, whole, in place of the one with its
 *   id. service_call: a `ShownServiceCall`. question: a `Question`. answered: {"request", "decision", "by"}. state: {"state", "model", "begun"}. items:
 *   {"from", "items", "total", "calls"}: every message from that index on is replaced, and of what is live only these
 *   calls are left. alert: an `Alert`, or {} once it is answered. about: {"title", "model", "ensembles", "off"}. gone: {} (it was deleted).
 */

/**
 * A file that a person gives with their words.
 * @typedef {object} AttachedFile
 * @property {string} name
 * @property {string} media_type
 * @property {string} data In base64.
 */

/**
 * Something to be saved.
 * @typedef {object} FileDownload
 * @property {string} name
 * @property {string} media_type
 * @property {string} data In base64.
 */

/**
 * @typedef {object} ModelChoice
 * @property {string} name
 * @property {string} [model] `provider:model`.
 * @property {boolean} [is_default]
 * @property {("tools" | "images" | "files")[]} [can] What is known of it: that it calls tools, sees pictures, reads PDF files.
 */

/**
 * @typedef {object} EnsembleChoice
 * @property {string} name `""` is the tools that are in none.
 * @property {string} [source] Where it comes from: a file, an MCP server, a module.
 * @property {number} [tools]
 * @property {string[]} [names] Of its tools, scoped.
 * @property {string} [problem]
 */

/**
 * An argument that an example needs.
 * @typedef {object} ExampleInput
 * @property {string} name
 * @property {string} [value] One that the tool itself gives as an example; empty is for the person to say.
 */

/**
 * Something that may be asked first, made of a tool that is there.
 * @typedef {object} ExamplePrompt
 * @property {string} tool
 * @property {string} says The first sentence of its description.
 * @property {ExampleInput[]} [inputs]
 * @property {boolean} [reads] Whether it changes nothing.
 */

/**
 * What a page needs to begin.
 * @typedef {object} DeskInfo
 * @property {string} name
 * @property {string} version
 * @property {string} node_id
 * @property {string} person
 * @property {ModelChoice[]} models
 * @property {EnsembleChoice[]} ensembles
 * @property {number} tools Those that a person chooses from.
 * @property {boolean} [settings_writable]
 * @property {ExamplePrompt[]} [examples]
 */

/**
 * Something of a run that took time.
 * @typedef {object} TraceSpan
 * @property {"turn" | "retry" | "call" | "wait" | "run"} kind
 * @property {string} name
 * @property {number} start Milliseconds since the run began.
 * @property {number} [ms]
 * @property {number} [depth]
 * @property {string} [state] Empty: not over.
 * @property {string} [call_id]
 * @property {[number, number] | null} [tokens] In and out, of a reply.
 * @property {number} [cached]
 * @property {number | null} [cost]
 */

/**
 * Sums of replies and calls.
 * @typedef {object} TraceTotals
 * @property {number} [turns]
 * @property {number} [calls]
 * @property {number} [failed]
 * @property {number} [retries]
 * @property {number} [waited_ms]
 * @property {number} [input_tokens]
 * @property {number} [output_tokens]
 * @property {number} [cached_tokens]
 * @property {number | null} [cost]
 */

/**
 * A run as a waterfall.
 * @typedef {object} RunTrace
 * @property {string} run
 * @property {number} started
 * @property {number} ms
 * @property {TraceSpan[]} spans
 * @property {TraceTotals} totals
 * @property {boolean} [more] Whether it has more spans than these.
 * @property {string} [state]
 */

/**
 * What one model did in one day.
 * @typedef {object} DayUsage
 * @property {string} day
 * @property {string} model
 * @property {TraceTotals} totals
 */

/**
 * A tool in a list, with what is known of its use.
 * @typedef {object} ToolRow
 * @property {string} name Scoped, as `io:write_file`.
 * @property {string} summary
 * @property {string} [ensemble]
 * @property {string} [source]
 * @property {string} [effects] `reads`, `writes`, `writes once` and so on: as `handrail tools list` says it.
 * @property {boolean} [side_effects]
 * @property {boolean} [deprecated]
 * @property {number} [offered]
 * @property {number} [picked]
 * @property {number} [failed]
 * @property {number} [p50_us]
 * @property {number} [p95_us]
 * @property {number[]} [recent] The last durations, at most 40, the newest last: for a small plot. A failed call is
 *   negative.
 */

/**
 * Everything about one tool.
 * @typedef {object} ToolPage
 * @property {ToolRow} row
 * @property {string} description
 * @property {Record<string, any>} input_schema
 * @property {Record<string, any> | null} [output_schema]
 * @property {any[]} [examples]
 * @property {string} [definition] The digest of its definition.
 * @property {string[]} [tags]
 * @property {Record<string, any>} [limits] timeout, retries, isolation, concurrency, idempotent, cacheable, and
 *   whatever else it has.
 * @property {string[]} [rules] The standing rules that may decide calls of it, in the order in which they are asked.
 * @property {Record<string, number>} [outcomes]
 * @property {string[]} [secrets] Fields that are masked wherever the call is shown.
 */

/**
 * @typedef {object} RunRow
 * @property {string} run
 * @property {number} started
 * @property {number} [ended]
 * @property {number} [calls]
 * @property {number} [failed]
 * @property {number} [in_doubt]
 * @property {number} [entries]
 * @property {string} [state]
 * @property {string} [title] Of the conversation, if it is one.
 * @property {string[]} [tools] Some that it called, by name.
 */

/**
 * An entry of the record with everything that shows it is there, for the browser to check.
 * @typedef {object} EntryRow
 * @property {number} seq
 * @property {string} type
 * @property {number} at
 * @property {string} leaf The exact bytes, as text: what is hashed.
 * @property {string[]} proof Hex, from the leaf up.
 * @property {string} says In a few words for people.
 * @property {string} [call_id]
 * @property {string} [tool]
 * @property {string | null} [salt]
 * @property {string | null} [body] None if it has none, or it was erased, or is too long to be shown with the others.
 * @property {boolean} [erased]
 * @property {number} [body_size]
 */

/**
 * A run as it can be verified: `checkpoint` signs a root, and every entry's proof leads to it.
 * @typedef {object} RunPage
 * @property {RunRow} row
 * @property {EntryRow[]} entries
 * @property {number} first Of all entries of the run, which is the first here: 0 is from the beginning.
 * @property {number} count All entries of the run.
 * @property {string} checkpoint A signed note; it carries the run and its number of entries as an extension line.
 * @property {string} verifier_key
 * @property {number} size Entries of the journal that the checkpoint signs.
 */

/**
 * @typedef {object} CapabilityRow
 * @property {string} name With its version.
 * @property {string} [description]
 * @property {number} [in_flight]
 * @property {boolean} [side_effects]
 * @property {boolean} [streams]
 */

/**
 * @typedef {object} NodeRow
 * @property {string} node_id
 * @property {string} [name]
 * @property {boolean} [local]
 * @property {"here" | "there" | "lost"} [state]
 * @property {CapabilityRow[]} [capabilities]
 * @property {number} [in_flight]
 * @property {number} [seen] When it was last heard of.
 */

/**
 * @typedef {object} TraceRow
 * @property {number} at
 * @property {string} trace
 * @property {string} capability
 * @property {string} from_node
 * @property {string} to_node
 * @property {string} result
 * @property {number} ms
 */

/**
 * @typedef {object} NetworkPage
 * @property {NodeRow[]} nodes
 * @property {TraceRow[]} traces The newest first.
 * @property {number} [under_way]
 * @property {number} [lost] Workers that were lost since the node began.
 * @property {number} [answered]
 * @property {number} [failed]
 */

/**
 * A part of the configuration as it holds now: names and values, for people.
 * @typedef {object} SettingsSection
 * @property {string} name As in the file: `models`, `limits`, `mcp`, `rules` …
 * @property {[string, string][]} [values]
 */

/**
 * @typedef {object} SettingsPage
 * @property {string | null} file Where it stands; None if there is no file yet.
 * @property {string} text
 * @property {string} revision The digest of the text: whoever saves says what they changed.
 * @property {SettingsSection[]} sections
 * @property {string[]} [rules] Standing words that a person gave at the page, which stand in the person's own file.
 * @property {boolean} [writable]
 * @property {string} [problem] What is wrong with the file now, so that an older reading of it holds.
 */

/**
 * One setting in a text.
 * @typedef {object} SettingField
 * @property {string[]} path
 * @property {string} help What names its help: the path with dots, and `*` where people give names.
 * @property {string} form flag, count, number, text, choice, texts or variable: `env:NAME`.
 * @property {any} [value] As it is written; null if it is not, or in a way that no field shows.
 * @property {any} [default] What holds where nothing is written; null is nothing, or what the help says.
 * @property {number | null} [least]
 * @property {string[]} [words] Of a choice.
 * @property {number} [line] Where it is written; 0 is nowhere.
 * @property {boolean} [stuck] Whether it is written in a way that only the text shows.
 * @property {[string, boolean][]} [variables] Those that it takes its value from, and whether they are set. Never what they hold.
 */

/**
 * One table of the file.
 * @typedef {object} FieldGroup
 * @property {string[]} path
 * @property {string} help
 * @property {number} [line]
 * @property {SettingField[]} [fields]
 * @property {[string, number][]} [inside] What it holds beside them: names, and the lines where they can be changed as text.
 */

/**
 * @typedef {object} SettingsMistake
 * @property {string} words
 * @property {number} [line]
 * @property {string[]} [path] The field that it is about, as far as it is about one.
 */

/**
 * A text that may become the file's, field by field. Nothing is written by looking at it.
 * @typedef {object} SettingsForm
 * @property {string} text
 * @property {FieldGroup[]} [groups] None while the text is not TOML.
 * @property {SettingsMistake[]} [problems]
 * @property {string[]} [changes] Against the file as it is now: the lines of a unified diff.
 */

export {};
