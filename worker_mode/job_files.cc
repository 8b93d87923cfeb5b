// See job_files.h. One message each way. A question: its own number, what it asks (4 bytes each), numbers of
// jobs. The answer: the number of the question, and for each job a byte that says whether there is such a
// one, and which of its files there are, with their descriptors beside it where they were asked for.
#include "worker_mode/job_files.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <vector>

#include "channel/passed_fds.h"
#include "core/base/error.h"
#include "core/base/json_text.h"

namespace hopfeed {
namespace {

constexpr char kNoSuchJob = 0, kHere = 1, kSeeds = 2, kRowCache = 4;  // added where the file is there
constexpr std::uint32_t kFiles = 0, kWhich = 1;                       // what is asked
constexpr std::size_t kMostJobs = 1'024;                              // that one question names

struct Question {
  std::uint32_t number = 0, what = kFiles;
  std::uint32_t jobs[kMostJobs];
};
constexpr std::size_t kQuestionHead = offsetof(Question, jobs);

struct Answer {
  std::uint32_t number = 0;
  char said[kMostJobs];
};
constexpr std::size_t kAnswerHead = offsetof(Answer, said);

void send_answer(int socket, const Question& question, std::size_t jobs, const FindJob& find) {
  Answer answer;
  answer.number = question.number;
  JobFiles files;
  for (std::size_t i = 0; i < jobs; ++i) {
    files = find(question.jobs[i]);
    answer.said[i] =
        !files.description
            ? kNoSuchJob
            : static_cast<char>(kHere | (files.seeds ? kSeeds : 0) | (files.row_cache ? kRowCache : 0));
  }
  std::array<int, kMostPassedFds> fds{};
  std::size_t count = 0;
  if (question.what == kFiles && files.description)
    for (const auto* file : {&files.description, &files.seeds, &files.row_cache})
      if (*file) fds[count++] = (*file)->get();
  // A worker that is gone is seen by its pidfd; one that asks has room for the answer.
  [[maybe_unused]] const ssize_t sent =
      send_with_fds(socket, std::as_bytes(std::span(&answer, 1)).first(kAnswerHead + jobs),
                    std::span(fds).first(count), MSG_DONTWAIT);
}

/// Sends a question and waits for its answer; one that came too late for an earlier question is passed over.
std::vector<OwnedFd> ask_server(int socket, std::uint32_t what, std::span<const std::uint32_t> jobs,
                                Answer& answer, std::chrono::milliseconds patience) {
  static std::uint32_t last_question = 0;  // a worker has one thread that asks
  const std::chrono::steady_clock::time_point end = std::chrono::steady_clock::now() + patience;
  Question question;
  question.number = ++last_question;
  question.what = what;
  std::ranges::copy(jobs, question.jobs);
  const std::size_t bytes = kQuestionHead + jobs.size_bytes();
  // A server that reads nothing has room for many questions, and each waits for its answer.
  if (send(socket, &question, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) != static_cast<ssize_t>(bytes))
    throw_errno("a worker cannot ask its server for a job", errno);
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd poller{.fd = socket, .events = POLLIN, .revents = 0};
    if (poll(&poller, 1, static_cast<int>(std::max<std::int64_t>(0, left))) <= 0)
      throw Error(ErrorCode::kTimeout, fmt::format("the server did not say within {} ms what job {} is",
                                                   patience.count(), jobs[0]));
    ReceivedMessage got = receive_with_fds(socket, std::as_writable_bytes(std::span(&answer, 1)));
    if (got.bytes <= 0) throw Error(ErrorCode::kPeerDied, "the server of a sampling worker is gone");
    if (answer.number == question.number && static_cast<std::size_t>(got.bytes) == kAnswerHead + jobs.size())
      return std::move(got.fds);
  }
}

}  // namespace

std::string JobDescription::to_json() const {
  return json_text({{"dataset", dataset},
                    {"manifest", manifest},
                    {"spec", spec.to_json()},
                    {"check_finite", check_finite}});
}

JobDescription JobDescription::from_json(const std::string& text) {
  try {
    const nlohmann::json json = parse_json(text);
    JobDescription job;
    json.at("dataset").get_to(job.dataset);
    json.at("manifest").get_to(job.manifest);
    job.spec = BatchSpec::from_json(json.at("spec").get<std::string>());
    json.at("check_finite").get_to(job.check_finite);
    return job;
  } catch (const nlohmann::json::exception&) {
    throw Error(
        ErrorCode::kCorrupt,
        "a worker's job is described as another version does; install server and hopfeed-worker together");
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
    Question question;
    const ssize_t got = recv(socket, &question, sizeof(question), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return errno == EAGAIN || errno == EWOULDBLOCK;
    if (got == 0) return false;
    const std::size_t bytes = static_cast<std::size_t>(got);
    if (bytes > kQuestionHead)
      send_answer(socket, question, (bytes - kQuestionHead) / sizeof(std::uint32_t), find);
  }
}

ReceivedJob ask_for_job(int socket, std::uint32_t job, std::chrono::milliseconds deadline) {
  Answer answer;
  std::vector<OwnedFd> files = ask_server(socket, kFiles, std::span(&job, 1), answer, deadline);
  const char said = answer.said[0];
  if (said == kNoSuchJob)
    throw Error(ErrorCode::kNotFound, fmt::format("the server has no job {} any more; open it again", job));
  ReceivedJob received;
  std::size_t next = 0;
  const auto take = [&](char file, OwnedFd& to) {
    if ((said & file) == 0) return;
    if (next == files.size())  // the kernel cut them off
      throw Error(ErrorCode::kNoSpace, "a sampling worker has no descriptor left for a job; raise ulimit -n");
    to = std::move(files[next++]);
  };
  take(kHere, received.description);
  take(kSeeds, received.seeds);
  take(kRowCache, received.row_cache);
  return received;
}

std::vector<std::uint32_t> ask_for_gone(int socket, std::span<const std::uint32_t> jobs,
                                        std::chrono::milliseconds deadline) {
  std::vector<std::uint32_t> gone;
  while (!jobs.empty()) {
    const std::span<const std::uint32_t> some = jobs.first(std::min(jobs.size(), kMostJobs));
    Answer answer;
    ask_server(socket, kWhich, some, answer, deadline);
    for (std::size_t i = 0; i < some.size(); ++i) {
      if (answer.said[i] == kNoSuchJob) gone.push_back(some[i]);
    }
    jobs = jobs.subspan(some.size());
  }
  return gone;
}

}  // namespace hopfeed
