// Feeds Indico's Remote.js (argument) with answers of a server and prints what its callers get.
var fs = require('fs'), vm = require('vm');

function ask(status, body) {
    var got = null;
    var context = {
        location: {href: 'http://localhost/'}, activeWebRequests: 0,
        Enum: function() { for (var i = 0; i < arguments.length; i++) { this[arguments[i]] = i; } },
        exists: function(value) { return value !== null && value !== undefined; },
        Json: {read: JSON.parse, write: JSON.stringify},
        $: function() { return {attr: function() { return 'token'; }}; }
    };
    context.global = context;
    context.XMLHttpRequest = function() {
        this.open = this.setRequestHeader = function() {};
        this.send = function() {
            this.readyState = 4;
            this.status = status;
            this.statusText = 'text of ' + status;
            this.responseText = body;
            this.onreadystatechange();
        };
    };
    vm.runInNewContext(fs.readFileSync(process.argv[2], 'utf-8'), context);
    context.jsonRpc('/rpc', 'method', {}, function(result, error) { got = {result: result, error: error}; });
    return got;
}

console.log(JSON.stringify({
    ok: ask(200, '{"result": "fine", "error": null}'),
    refused: ask(200, '{"result": null, "error": {"message": "no", "type": "noReport"}}'),
    unavailable: ask(503, '{"result": null, "error": {"message": "later", "type": "noReport"}}'),
    other: ask(502, '{}')
}));
