"""Stands between a worker and its server, and loses what it is told to lose."""

import re
import socket
import threading

ACK = re.compile(rb"RQ\.ACK\r\n", re.I)


class Proxy:
    """`lose`: what becomes of the next RQ.ACK: nothing, or its `request` or its `reply` is lost,
    and the connection with it. `acks`: how many came."""

    def __init__(self, target):
        self.target, self.lose, self.acks, self.lost = target, None, 0, 0
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                worker, _ = self.listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                worker.close()
                continue
            Link(self, worker, server)

    def close(self):
        self.listener.close()


class Link:
    """One connection, with a thread for each direction."""

    def __init__(self, proxy, worker, server):
        self.proxy, self.worker, self.server, self.mute = proxy, worker, server, False
        threading.Thread(target=self.requests, daemon=True).start()
        threading.Thread(target=self.replies, daemon=True).start()

    def requests(self):
        tail = b""
        while data := received(self.worker):
            seen, tail = ACK.findall(tail + data), data[-7:]  # less than the word: it is not seen twice
            self.proxy.acks += len(seen)
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
            if self.mute or not sent(self.worker, data):
                break
        self.close()

    def close(self):
        for end in (self.worker, self.server):
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
