"""Runs in openpi's environment: does one thing with openpi's own client and prints what came of it as JSON."""

import json
import sys
import threading

import numpy as np
from openpi_client.action_chunk_broker import ActionChunkBroker
from openpi_client.websocket_client_policy import WebsocketClientPolicy


def read_observations(count):
    """The observations that the test wrote for us."""
    with np.load(sys.argv[3]) as file:
        return [{"state": file["states"][i], "step": int(file["steps"][i])} for i in range(count or len(file["steps"]))]


def infer(port, key):
    policy = WebsocketClientPolicy("127.0.0.1", port, api_key=key)
    replies = [policy.infer(observation) for observation in read_observations(0)]
    return {
        "metadata": policy.get_server_metadata(),
        "steps": [reply["step"] for reply in replies],
        "actions": [reply["actions"].tolist() for reply in replies],
        "dtypes": sorted({str(reply["actions"].dtype) for reply in replies}),
        "timing": [reply["server_timing"] for reply in replies],
    }


def broker(port, key, horizon):
    """One chunk pulled action by action, as openpi's runtime does."""
    policy = ActionChunkBroker(WebsocketClientPolicy("127.0.0.1", port, api_key=key), action_horizon=horizon)
    observation = read_observations(0)[2]
    return {"actions": [policy.infer(observation)["actions"].tolist() for _ in range(horizon)]}


def reconnect(port, key):
    """Infers, waits for a line on stdin while the server restarts, sees the old connection end, and connects again."""
    (observation,) = read_observations(1)
    policy = WebsocketClientPolicy("127.0.0.1", port, api_key=key)
    first = policy.infer(observation)["step"]
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        policy.infer(observation)
        broken = None
    except Exception as error:
        broken = f"{type(error).__name__}: {error}"
    policy = WebsocketClientPolicy("127.0.0.1", port, api_key=key)
    return {"first": first, "broken": broken, "again": policy.infer(observation)["step"]}


def load(port, key, clients, requests):
    """Many clients at once; every answer must carry the tag of its own request in every number."""
    wrong, answered = [], []

    def one(number):
        policy = WebsocketClientPolicy("127.0.0.1", port, api_key=key)
        for index in range(requests):
            tag = number * requests + index
            reply = policy.infer({"state": np.zeros(14, np.float32), "tag": tag})
            expected = tag + np.array([[0.25], [0.75]]) * np.ones(14)
            if reply["tag"] != tag or not np.array_equal(reply["actions"], expected):
                wrong.append(tag)
        answered.append(requests)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"answered": sum(answered), "wrong": wrong}


def main():
    """python client_script.py WHAT PORT OBSERVATIONS KEY [NUMBER ...]"""
    what, port, _, key = sys.argv[1:5]
    work = {"infer": infer, "broker": broker, "reconnect": reconnect, "load": load}[what]
    try:
        result = work(int(port), key or None, *map(int, sys.argv[5:]))
    except Exception as error:
        result = {"error": type(error).__name__, "text": str(error)}
    print(json.dumps(result))


main()
