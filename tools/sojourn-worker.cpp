// SPDX-License-Identifier: Apache-2.0
// Runs the steps of clients for sojourn-owner, which starts it and speaks to it (owner/process).
#include "owner/process/WorkerMain.h"

#include <cstdio>
#include <sys/socket.h>

int main() {
  int type = 0;
  socklen_t size = sizeof(type);
  if (getsockopt(3, SOL_SOCKET, SO_TYPE, &type, &size) != 0 || type != SOCK_SEQPACKET) {
    std::fputs("sojourn-worker: started by hand; 'sojourn-owner serve' starts it, for the steps of clients\n", stderr);
    return 2;
  }
  return sojourn::owner::workerMain();
}
