// See job_files.h. One message each way: the number (4 bytes), and a byte that says whether there is such a
// job, with the descriptors beside it.
#include "worker_mode/job_files.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <vector>

#include "core/base/error.h"
#include "core/base/json_text.h"

namespace hopfeed {
namespace {

constexpr int kMostFiles = 2;
constexpr char kHere = 1, kNoSuchJob = 0;

/// Room for the descriptors beside a message, aligned as the kernel wants it.
union FilesBuffer {
  cmsghdr aligned;
  char bytes[CMSG_SPACE(kMostFiles * sizeof(int))];
};

void send_answer(int socket, const JobFiles& files) {
  char said = files.description ? kHere : kNoSuchJob;
  iovec part{.iov_base = &said, .iov_len = 1};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  FilesBuffer buffer{};
  if (files.description) {
    std::array<int, kMostFiles> fds{files.description->get(), files.seeds ? files.seeds->get() : -1};
    const std::size_t bytes = (files.seeds ? 2 : 1) * sizeof(int);
    message.msg_control = buffer.bytes;
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(header), fds.data(), bytes);
  }
  // A worker that is gone is seen by its pidfd; one that asks has room for the answer.
  [[maybe_unused]] const ssize_t sent = sendmsg(socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
}

std::vector<OwnedFd> files_of(msghdr& message) {
  std::vector<OwnedFd> files;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    std::array<int, kMostFiles> fds{};
    std::memcpy(fds.data(), CMSG_DATA(header), std::min(count * sizeof(int), sizeof(fds)));
    for (std::size_t i = 0; i < std::min<std::size_t>(count, kMostFiles); ++i) files.emplace_back(fds[i]);
  }
  return files;
}

}  // namespace

std::string JobDescription::to_json() const {
  return json_text({{"dataset", dataset}, {"spec", spec.to_json()}, {"check_finite", check_finite}});
}

JobDescription JobDescription::from_json(const std::string& text) {
  try {
    const nlohmann::json json = parse_json(text);
    JobDescription job;
    json.at("dataset").get_to(job.dataset);
    job.spec = BatchSpec::from_json(json.at("spec").get<std::string>());
    json.at("check_finite").get_to(job.check_finite);
    return job;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kCorrupt,
                std::string("a worker's job cannot be read; install server and hopfeed-worker together (") +
                    error.what() + ")");
  }
}

JobSockets::JobSockets() {
  constexpr const char* what = "cannot make a socket for a sampling worker";
  int pair[2] = {-1, -1};
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0) throw_errno(what, errno);
  const OwnedFd one(pair[0]), other(pair[1]);
  ours = out_of_the_way(one, what);
  workers = out_of_the_way(other, what);
}

bool answer_jobs(int socket, const FindJob& find) {
  for (;;) {
    std::uint32_t job = 0;
    const ssize_t got = recv(socket, &job, sizeof(job), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (got == 0) return false;
    send_answer(socket, got == sizeof(job) ? find(job) : JobFiles{});
  }
}

ReceivedJob ask_for_job(int socket, std::uint32_t job, std::chrono::milliseconds deadline) {
  if (send(socket, &job, sizeof(job), MSG_NOSIGNAL) != sizeof(job))
    throw_errno("a worker cannot ask its server for a job", errno);
  pollfd poller{.fd = socket, .events = POLLIN, .revents = 0};
  const int answered = poll(&poller, 1, static_cast<int>(deadline.count()));
  if (answered <= 0)
    throw Error(ErrorCode::kTimeout,
                fmt::format("the server did not say within {} ms what job {} is", deadline.count(), job));
  char said = kNoSuchJob;
  iovec part{.iov_base = &said, .iov_len = 1};
  FilesBuffer buffer{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = buffer.bytes;
  message.msg_controllen = sizeof(buffer.bytes);
  const ssize_t got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
  if (got <= 0) throw Error(ErrorCode::kPeerDied, "the server of a sampling worker is gone");
  std::vector<OwnedFd> files = files_of(message);
  if (said != kHere || files.empty())
    throw Error(ErrorCode::kNotFound, fmt::format("the server has no job {} any more; open it again", job));
  ReceivedJob received{.description = std::move(files[0]), .seeds = {}};
  if (files.size() > 1) received.seeds = std::move(files[1]);
  return received;
}

}  // namespace hopfeed
