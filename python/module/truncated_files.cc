// See truncated_files.h.
#include "python/module/truncated_files.h"

#include <Python.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <string>

#include "core/base/error.h"
#include "core/base/mapped_ranges.h"

namespace hopfeed::python {
namespace {

struct sigaction before;
std::uintptr_t page_bytes = 4096;
std::atomic<const char*> truncated{nullptr};  // the file's path, until somebody was told

Error error_of(const char* path) {
  return {ErrorCode::kCorrupt, std::string(path) +
                                   " was truncated while it was being read; restore the file, and change no "
                                   "dataset that is in use"};
}

/// In the main thread, with the GIL.
int raise_pending(void*) {
  const char* path = truncated.exchange(nullptr);
  if (path == nullptr) return 0;  // next() has thrown it
  const Error error = error_of(path);
  PyObject* errors = PyImport_ImportModule("hopfeed.errors");
  PyObject* type = errors != nullptr ? PyObject_GetAttrString(errors, "CorruptError") : nullptr;
  PyErr_SetString(type != nullptr ? type : PyExc_RuntimeError, error.what());
  Py_XDECREF(type);
  Py_XDECREF(errors);
  return -1;
}

void hand_on(int signal, siginfo_t* info, void* context) {
  if ((before.sa_flags & SA_SIGINFO) != 0 && before.sa_sigaction != nullptr) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    const bool sent = info->si_code <= 0;  // by kill() or raise()
    if (sent && before.sa_handler == SIG_IGN) return;
    ::signal(SIGBUS, SIG_DFL);  // the instruction runs again, and now it kills
    if (sent) ::raise(SIGBUS);
  }
}

void handle(int signal, siginfo_t* info, void* context) {
  const char* path = info->si_code > 0 ? mapped_path_at(info->si_addr) : nullptr;
  if (path == nullptr) return hand_on(signal, info, context);
  auto* page = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(info->si_addr) & ~(page_bytes - 1));
  if (mmap(page, page_bytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
    return hand_on(signal, info, context);
  if (truncated.exchange(path) == nullptr) Py_AddPendingCall(raise_pending, nullptr);
}

}  // namespace

void survive_truncated_files() {
  page_bytes = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  struct sigaction action = {};
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  sigaction(SIGBUS, &action, &before);
}

void require_whole_files() {
  if (const char* path = truncated.exchange(nullptr)) throw error_of(path);
}

}  // namespace hopfeed::python
