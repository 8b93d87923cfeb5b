// Starts threads that take no signals: the program's are for its own threads.
#pragma once
#include <pthread.h>
#include <signal.h>

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "core/base/error.h"

namespace hopfeed {

/// Starts `body`. A thread inherits the mask of the one that starts it, so that one's is closed meanwhile.
/// Throws as throw_errno does; `what` is "cannot start a thread for ...".
template <class Body>
std::thread start_quiet_thread(const std::string& what, Body body) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    std::thread thread(std::move(body));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return thread;
  } catch (const std::system_error& error) {
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    throw_errno(what, error.code().value());
  }
}

}  // namespace hopfeed
