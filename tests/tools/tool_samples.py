"""Two hundred tools as servers of many kinds declare them, and what people say who need one of them."""

from __future__ import annotations

from handrail.tools.definition import ToolDefinition

TOOLS = """
github.create_issue | Open a new issue in a repository. | owner, repo, title, body, labels
github.list_issues | List the issues of a repository, filtered by state and label. | owner, repo, state, labels
github.close_issue | Close an issue with an optional comment. | owner, repo, number, comment
github.create_pull_request | Propose changes by opening a pull request. | owner, repo, head, base, title
github.merge_pull_request | Merge a pull request into its base branch. | owner, repo, number, method
github.review_pull_request | Approve or request changes on a pull request. | owner, repo, number, verdict
github.search_code | Search source code across repositories. | query, language
github.get_file_contents | Read a file from a repository at a given ref. | owner, repo, path, ref
github.list_branches | List the branches of a repository. | owner, repo
github.create_branch | Create a branch from a commit. | owner, repo, name, sha
github.list_commits | Show the commit history of a branch. | owner, repo, branch
github.create_release | Publish a release with notes for a tag. | owner, repo, tag, notes
github.fork_repository | Fork a repository into your account. | owner, repo
github.star_repository | Star a repository. | owner, repo
github.list_workflow_runs | List runs of CI workflows and their status. | owner, repo, workflow
github.rerun_workflow | Run a failed CI workflow again. | owner, repo, run_id
slack.post_message | Send a message to a Slack channel. | channel, text, thread
slack.list_channels | List the channels of the workspace. | cursor
slack.get_channel_history | Read recent messages of a channel. | channel, limit
slack.add_reaction | Add an emoji reaction to a message. | channel, timestamp, emoji
slack.invite_user | Invite a person to a channel. | channel, user
slack.set_status | Set your own status text and emoji. | text, emoji
slack.upload_file | Upload a file to a channel. | channel, path
slack.search_messages | Find messages by text. | query
email.send | Send an email to one or more recipients. | to, subject, body, attachments
email.search_inbox | Search your mailbox. | query, folder, since
email.read_message | Fetch one email with its headers and body. | id
email.reply | Answer an email, to the sender or to everybody. | id, body, all
email.archive | Move an email out of the inbox. | id
email.mark_spam | Report an email as junk. | id
email.create_filter | Make a rule that sorts incoming mail automatically. | condition, action
email.unsubscribe | Leave a mailing list. | id
calendar.create_event | Schedule a meeting with attendees. | title, start, end, attendees
calendar.list_events | Show what is on the calendar between two dates. | from, to
calendar.delete_event | Remove an event from the calendar. | id
calendar.find_free_time | Find slots in which all attendees are free. | attendees, duration
calendar.reschedule_event | Move a meeting to another time. | id, start
calendar.respond_to_invite | Accept or decline an invitation. | id, answer
calendar.set_reminder | Remind me of something at a time. | text, at
drive.upload_file | Upload a local file to cloud storage. | path, folder
drive.download_file | Download a file from cloud storage. | id
drive.share_file | Give somebody access to a file. | id, email, role
drive.search_files | Find files in cloud storage by name or content. | query
drive.create_folder | Make a new folder in cloud storage. | name, parent
drive.move_file | Put a file into another folder. | id, folder
drive.trash_file | Move a file to the trash. | id
docs.create_document | Start a new text document. | title
docs.append_text | Add text to the end of a document. | id, text
docs.export_pdf | Export a document as PDF. | id
docs.comment | Leave a comment on a passage of a document. | id, quote, text
sheets.read_range | Read cells of a spreadsheet. | id, range
sheets.write_range | Write values into cells of a spreadsheet. | id, range, values
sheets.add_sheet | Add a tab to a spreadsheet. | id, title
sheets.create_chart | Draw a chart from a range of cells. | id, range, kind
fs.read_file | Read a text file from disk. | path
fs.write_file | Write text to a file on disk, replacing it. | path, content
fs.list_directory | List the entries of a directory. | path
fs.delete_file | Delete a file from disk. | path
fs.copy_file | Copy a file. | source, target
fs.rename | Rename or move a file or directory. | source, target
fs.search_text | Search files for a regular expression (grep). | pattern, path
fs.file_info | Size, owner and modification time of a file. | path
fs.make_archive | Compress files into a zip archive. | paths, target
fs.extract_archive | Unpack a zip or tar archive. | path, target
shell.run_command | Run a shell command and return its output. | command, cwd, timeout
shell.list_processes | List running processes with CPU and memory. | filter
shell.kill_process | Terminate a process by its pid. | pid, signal
shell.disk_usage | Show how much disk space is used and free. | path
python.execute | Execute Python code in a sandbox and return what it prints. | code
python.install_package | Install a package with pip. | name, version
python.run_tests | Run the test suite with pytest. | path, keyword
sql.query | Run a read-only SQL query against the database. | statement
sql.execute | Run an SQL statement that changes data. | statement
sql.list_tables | List tables of the database. | schema
sql.describe_table | Show columns and types of a table. | table
sql.explain | Show the execution plan of a query. | statement
sql.backup | Dump the database into a file. | target
redis.get_key | Get the value of a cache key. | key
redis.set_key | Set a cache key with an expiry. | key, value, ttl
redis.flush | Clear the whole cache. | database
weather.current | Current temperature, wind and conditions in a place. | city, unit
weather.forecast | Forecast for the next days in a place. | city, days
weather.alerts | Severe weather warnings of a region. | region
weather.air_quality | Air quality index and pollen. | city
maps.geocode | Coordinates of an address. | address
maps.reverse_geocode | Address of coordinates. | latitude, longitude
maps.directions | Route between two places by car, foot or bike. | origin, destination, mode
maps.nearby_places | Find restaurants, shops and other places nearby. | latitude, longitude, kind
maps.travel_time | How long a trip takes with the present traffic. | origin, destination
maps.timezone | Time zone of a place. | latitude, longitude
flights.search | Search flights between airports. | from, to, date, passengers
flights.book | Book a seat on a flight. | offer, passenger
flights.status | Whether a flight is on time. | number, date
flights.check_in | Check in for a flight and get the boarding pass. | booking
hotels.search | Find hotel rooms in a city. | city, check_in, check_out, guests
hotels.book | Reserve a hotel room. | offer, guest
hotels.cancel_booking | Cancel a reservation of a room. | booking
trains.timetable | Train departures and arrivals at a station. | station, time
trains.buy_ticket | Buy a rail ticket. | from, to, time, class
cars.rent | Rent a car. | place, from, to, category
taxi.order_ride | Order a taxi to an address. | pickup, destination
restaurants.book_table | Reserve a table at a restaurant. | name, time, people
food.order_delivery | Order a meal for delivery. | restaurant, dishes, address
recipes.search | Find recipes by ingredients. | ingredients, diet
nutrition.analyze | Calories and nutrients of a food. | food, amount
stripe.create_invoice | Create an invoice for a customer. | customer, items, due
stripe.refund_payment | Refund a charge in full or in part. | charge, amount
stripe.list_payments | List the payments of an account. | customer, since
stripe.create_customer | Create a customer record. | email, name
stripe.create_subscription | Start a recurring plan for a customer. | customer, plan
stripe.cancel_subscription | End a recurring plan. | subscription
stripe.get_balance | Available and pending balance. |
bank.transfer | Transfer money to another account. | iban, amount, reference
bank.list_transactions | List bookings of a bank account. | account, from, to
bank.get_balance | Balance of a bank account. | account
bank.block_card | Block a lost or stolen card. | card
currency.convert | Convert an amount from one currency to another. | amount, from, to
currency.rates | Exchange rates of a day. | base, date
stocks.quote | Latest price of a share. | symbol
stocks.history | Historical prices of a share. | symbol, from, to
stocks.place_order | Buy or sell shares. | symbol, side, quantity
crypto.price | Price of a cryptocurrency. | coin
tax.calculate_vat | Compute value added tax of an amount. | amount, country
payroll.get_payslip | Payslip of an employee for a month. | employee, month
hr.request_vacation | Ask for days off. | from, to
hr.list_employees | List employees by department. | department
hr.get_employee | Details of one employee. | id
hr.record_sick_leave | Report that somebody is ill. | employee, from, to
crm.find_contact | Find a contact by name, mail or company. | query
crm.create_lead | Add a sales lead. | name, company, source
crm.update_deal | Change the stage or value of a deal. | id, stage, value
crm.log_call | Note a phone call with a contact. | contact, summary
crm.list_deals | List the deals of the pipeline. | stage, owner
zendesk.create_ticket | Open a support ticket. | subject, body, priority
zendesk.assign_ticket | Assign a support ticket to an agent. | id, agent
zendesk.close_ticket | Solve a support ticket. | id, note
zendesk.search_tickets | Search support tickets. | query, status
jira.create_story | Add a story to the backlog. | project, summary, points
jira.move_issue | Move an issue to another column of the board. | key, status
jira.start_sprint | Start a sprint. | board, name, days
jira.log_work | Log hours spent on an issue. | key, hours
todo.add_task | Put a task on the to-do list. | text, due
todo.complete_task | Tick a task off. | id
todo.list_tasks | What is on the to-do list. | filter
notes.create | Write a note. | title, text
notes.search | Look through notes. | query
wiki.get_page | Read a page of the company wiki. | title
wiki.edit_page | Change a page of the company wiki. | title, text
web.search | Search the web. | query, count
web.fetch_page | Download a web page as text. | url
web.screenshot | Take a picture of a web page. | url, width
web.check_link | Whether a URL answers, and with which status. | url
news.headlines | Latest headlines by topic. | topic, country
wikipedia.summary | Summary of an encyclopedia article. | title, language
translate.text | Translate text into another language. | text, target
translate.detect_language | Which language a text is in. | text
dictionary.define | Definition of a word. | word
dictionary.synonyms | Words with the same meaning. | word
text.summarize | Shorten a long text to its main points. | text, sentences
text.sentiment | Whether a text is positive or negative. | text
text.spellcheck | Find spelling mistakes. | text, language
text.diff | Compare two texts line by line. | one, other
math.evaluate | Evaluate an arithmetic expression. | expression
math.solve_equation | Solve an equation for a variable. | equation, variable
math.convert_units | Convert between units of length, weight or volume. | value, from, to
math.random_number | Draw a random number. | low, high
math.statistics | Mean, median and deviation of numbers. | values
time.now | Current date and time in a zone. | zone
time.date_difference | Days between two dates. | from, to
image.generate | Generate an image from a description. | prompt, size
image.resize | Change the size of an image. | path, width, height
image.remove_background | Cut out the subject of a photo. | path
image.describe | Say what can be seen in a picture. | path
image.read_text | Recognise text in an image (OCR). | path, language
audio.transcribe | Turn speech into text. | path, language
audio.text_to_speech | Read a text aloud into an audio file. | text, voice
video.trim | Cut a clip out of a video. | path, start, end
video.extract_audio | Get the sound track of a video. | path
music.play | Play a song, album or playlist. | query
music.pause | Pause playback. |
music.add_to_playlist | Add a track to a playlist. | track, playlist
home.set_light | Switch a lamp on or off, or dim it. | room, brightness
home.set_thermostat | Set the heating of a room. | room, temperature
home.lock_door | Lock or unlock the front door. | state
home.camera_snapshot | Picture from a security camera. | camera
home.start_vacuum | Start the robot vacuum cleaner. | rooms
k8s.list_pods | List pods in a namespace of the cluster. | namespace
k8s.get_logs | Read the logs of a pod. | namespace, pod, lines
k8s.scale_deployment | Change the number of replicas. | namespace, name, replicas
k8s.restart_deployment | Restart the pods of a deployment. | namespace, name
k8s.apply_manifest | Create or change resources from YAML. | manifest
docker.build_image | Build a container image. | path, tag
docker.run_container | Start a container. | image, ports
docker.stop_container | Stop a container. | id
aws.list_buckets | List S3 buckets. | region
aws.start_instance | Start an EC2 virtual machine. | instance
aws.get_costs | What the cloud account costs by service. | from, to
dns.lookup | Resolve a domain name. | name, type
net.ping | Whether a host answers, and how fast. | host
ssl.check_certificate | When a TLS certificate expires. | host
monitoring.list_alerts | Alerts that fire at the moment. | severity
monitoring.query_metric | Values of a metric over time. | expression, range
monitoring.silence_alert | Mute an alert for a while. | id, minutes
sentry.list_errors | Latest exceptions of an application. | project
shop.search_products | Search the catalogue of the shop. | query, category
shop.track_order | Where a parcel is. | order
shop.cancel_order | Cancel an order that was not shipped. | order
shop.update_stock | Set how many of a product are in the warehouse. | sku, quantity
contacts.find_phone_number | Phone number of a person. | name
sms.send | Send a text message to a phone. | number, text
survey.create | Make a questionnaire. | title, questions
pdf.merge | Join several PDF files into one. | paths
pdf.extract_text | Get the text out of a PDF. | path
qr.create_code | Make a QR code of a text or link. | text
password.generate | Make a strong random password. | length
"""

QUERIES = """
open a bug report in the repo about the login crash | github.create_issue
which issues are still open on handrail? | github.list_issues
merge PR 42 | github.merge_pull_request
please approve this pull request | github.review_pull_request
did the CI pass? show workflow runs | github.list_workflow_runs
what changed lately on main? commit history | github.list_commits
tell the team in the #general channel that we are done | slack.post_message
react with a thumbs up emoji | slack.add_reaction
mail Ada the report | email.send
find the email about the contract in my inbox | email.search_inbox
mark that message as junk | email.mark_spam
set up a meeting with Bob tomorrow at 10 | calendar.create_event
what's on my calendar next week? | calendar.list_events
move the meeting to Friday | calendar.reschedule_event
when are we all free for an hour? | calendar.find_free_time
remind me to call mum at six | calendar.set_reminder
share the slides file with eve@example.org | drive.share_file
write these numbers into the spreadsheet | sheets.write_range
plot a chart of the sales column | sheets.create_chart
show me the contents of config.toml on disk | fs.read_file
remove the file /tmp/a.txt | fs.delete_file
grep for a pattern in all files | fs.search_text
zip these files | fs.make_archive
unpack the archive | fs.extract_archive
how full is the disk? | shell.disk_usage
kill the process with pid 4711 | shell.kill_process
run pytest on the project | python.run_tests
which columns does the table users have? | sql.describe_table
what is the weather like in Lisbon right now? | weather.current
will it rain in Porto over the next few days? | weather.forecast
how do I get from the station to the museum by bike? | maps.directions
are there restaurants near here? | maps.nearby_places
find me a flight from Lisbon to Oslo on Monday | flights.search
is flight TP123 on time? | flights.status
cancel my hotel reservation | hotels.cancel_booking
buy a train ticket to Berlin | trains.buy_ticket
reserve a table for four | restaurants.book_table
give the customer their money back for charge ch_1 | stripe.refund_payment
bill the customer for ten hours | stripe.create_invoice
send 50 euros to this IBAN | bank.transfer
my credit card was stolen, block it | bank.block_card
how much is 100 dollars in yen? convert currency | currency.convert
price of Apple shares | stocks.quote
I want two weeks of vacation in August | hr.request_vacation
add a new sales lead | crm.create_lead
assign the support ticket to Grace | zendesk.assign_ticket
I spent three hours on KEY-7, log it | jira.log_work
put milk on my todo list | todo.add_task
take a screenshot of that web page | web.screenshot
translate this into Portuguese | translate.text
summarise this long article | text.summarize
solve x^2 = 2 for x | math.solve_equation
make a picture of a cat on a boat | image.generate
extract the words from this scanned image with OCR | image.read_text
transcribe the recording | audio.transcribe
play some music by Amália | music.play
turn off the lamp in the kitchen | home.set_light
why does the pod crash? get its logs | k8s.get_logs
scale the web deployment to five replicas | k8s.scale_deployment
when does our TLS certificate expire? | ssl.check_certificate
where is my parcel? | shop.track_order
text Maria's phone that I am late | sms.send
join these pdfs | pdf.merge
getFileContents | github.get_file_contents
kubernetes restart_deployment | k8s.restart_deployment
"""


def tools() -> list[ToolDefinition]:
    return [_tool(*(part.strip() for part in line.split("|"))) for line in TOOLS.strip().splitlines()]


def queries() -> list[tuple[str, str]]:
    """What is said, and the tool that is meant."""
    found = (line.rpartition("|") for line in QUERIES.strip().splitlines())
    return [(said.strip(), name.strip()) for said, _, name in found]


def _tool(name: str, description: str, parameters: str) -> ToolDefinition:
    named = [each.strip() for each in parameters.split(",") if each.strip()]
    properties = {each: {"type": "string"} for each in named}
    return ToolDefinition(name, description, {"type": "object", "properties": properties})
