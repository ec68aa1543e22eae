# Functions of the snippets of faults. NS is the namespace of the fault, NODE_PID the init of the node.

# k ARGUMENT...: kubectl in the namespace of the fault.
k() { kubectl --namespace="$NS" "$@"; }

# in_node COMMAND...: as root of the node.
in_node() { nsenter --target="$NODE_PID" --mount --pid --net --ipc "$@"; }

# says PATTERN COMMAND...: whether the output of a command has a match.
says() { local pattern="$1"; shift; "$@" 2>&1 | grep -Eq -- "$pattern"; }

# reasons SELECTOR: why containers wait, and why they ended last.
reasons() {
    k get pods --selector="$1" --output=jsonpath='{range .items[*]}{.status.reason} {range .status.initContainerStatuses[*]}{.state.waiting.reason} {.lastState.terminated.reason} {end}{range .status.containerStatuses[*]}{.state.waiting.reason} {.lastState.terminated.reason} {.state.terminated.reason} {end}{end}'
}

# available KIND/NAME: whether all replicas of the newest template are available, and there are some.
available() {
    k rollout status "$1" --timeout=1s >/dev/null 2>&1 &&
        [ "$(k get "$1" --output=jsonpath='{.status.availableReplicas}{.status.numberReady}' | tr -d ' ')" != "" ]
}

# answers SERVICE PORT: whether a Service answers HTTP with 200 inside the cluster.
answers() {
    local address; address="$(k get service "$1" --output=jsonpath='{.spec.clusterIP}')"
    in_node timeout 3 bash -c 'exec 3<>"/dev/tcp/$0/$1" && printf "GET / HTTP/1.0\r\nHost: %s\r\n\r\n" "$0" >&3 &&
        read -r _ status _ <&3 && [ "$status" = 200 ]' "$address" "$2"
}

# events PATTERN: whether an event of the namespace matches.
events() { says "$1" k get events --output=custom-columns=REASON:.reason,MESSAGE:.message; }

# reached KIND/NAME JSONPATH VALUE: whether a field has a value.
reached() { [ "$(k get "$1" --output=jsonpath="$2")" = "$3" ]; }
