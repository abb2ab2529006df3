"""Stands between a client and its server, and loses what it is told to lose."""

import re
import socket
import threading

class Proxy:
    """Looks out for one command. `lose`: whether the `request` or the `reply` of the next one is
    lost, and the connection with it. `seen`: how many came."""

    def __init__(self, target, command):
        self.target, self.lose, self.seen, self.lost = target, None, 0, 0
        self.shorter = len(command) + 1
        self.command = re.compile(re.escape(f"{command}\r\n".encode()), re.I)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            Link(self, client, server)

    def close(self):
        self.listener.close()


class Link:
    """One connection, with a thread for each direction."""

    def __init__(self, proxy, client, server):
        self.proxy, self.client, self.server, self.mute = proxy, client, server, False
        threading.Thread(target=self.requests, daemon=True).start()
        threading.Thread(target=self.replies, daemon=True).start()

    def requests(self):
        tail = b""  # of what came before: shorter than the command, so none is seen twice
        while data := received(self.client):
            seen, tail = self.proxy.command.findall(tail + data), (tail + data)[-self.proxy.shorter:]
            self.proxy.seen += len(seen)
            if seen and self.proxy.lose:
                lose, self.proxy.lose = self.proxy.lose, None
                self.proxy.lost += 1
                if lose == "request":
                    break
                self.mute = True
            if not sent(self.server, data):
                break
        self.close()

    def replies(self):
        while data := received(self.server):
            if self.mute or not sent(self.client, data):
                break
        self.close()

    def close(self):
        for end in (self.client, self.server):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            end.close()


def received(end):
    try:
        return end.recv(65536)
    except OSError:
        return b""


def sent(end, data):
    try:
        end.sendall(data)
        return True
    except OSError:
        return False
