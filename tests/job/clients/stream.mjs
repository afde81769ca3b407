// Asks the server ($1) by Node's fetch and reads the answer as a stream. Prints the
// number of events and the text as JSON.
const answer = await fetch(`${process.argv[2]}/completions`, {
    method: 'POST',
    headers: {'Content-Type': 'application/json'},
    body: JSON.stringify({prompt: 'static int', max_tokens: 8, stream: true}),
});
let events = 0, text = '', rest = '', ended = false;
const decoder = new TextDecoder();
for await (const bytes of answer.body) {
    rest += decoder.decode(bytes, {stream: true});
    const lines = rest.split('\n');
    rest = lines.pop();
    for (const line of lines) {
        if (line === 'data: [DONE]') ended = true;
        else if (line.startsWith('data: ')) {
            events++;
            text += JSON.parse(line.slice(6)).choices[0].text;
        }
    }
}
console.log(JSON.stringify({status: answer.status, events, text, ended}));
