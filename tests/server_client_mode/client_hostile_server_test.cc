// What a client does with servers that are wrong, hostile or slow: no wrong byte is handed out, no memory is
// taken that was not granted, nothing hangs; another server gives the same batch, or next() says what is
// wrong and where.
#include <algorithm>
#include <cstring>
#include <memory>

#include "core/batch/batch_layout.h"
#include "server_client_mode/client/remote_loader.h"
#include "tests/wire/client_scripted_server.h"
#include "tests/worker_mode/loader_fixture.h"

namespace hopfeed {
namespace {

using namespace std::chrono_literals;
using Turn = ScriptedServer::Turn;
using Block = ScriptedServer::Block;

Block copy_of(const Block& block) { return std::make_shared<std::vector<std::byte>>(*block); }

class HostileServer : public LoaderTestWithin<120> {
 protected:
  static ScriptedServer::Options scripted(std::function<bool(const Turn&)> script = nullptr) {
    ScriptedServer::Options options;
    options.dataset = path(1).string();
    options.script = std::move(script);
    return options;
  }
  static RemoteExecution remote(std::vector<wire::Address> servers) {
    RemoteExecution remote;
    remote.servers = std::move(servers);
    remote.token = ScriptedServer::Options{}.token;
    remote.connect_timeout = 30'000ms;
    return remote;
  }
  /// With `bad` at hand and an honest server behind it, the epoch is the oracle's.
  static void expect_same_bytes_beside(ScriptedServer& bad) {
    ScriptedServer honest(scripted());
    RemoteLoader loader(remote({bad.address(), honest.address()}), options());
    EXPECT_EQ(loaded(loader), expected(options()));
    EXPECT_GT(bad.batches(), 0);
    EXPECT_GT(honest.batches(), 0);
    EXPECT_GT(loader.stats().worker_deaths, 0);
  }
  /// Alone it ends the stream with an error of this code that names the server and says `part`.
  static void expect_error_alone(ScriptedServer& bad, const std::string& code, const std::string& part) {
    RemoteLoader loader(remote({bad.address()}), options());
    const std::string error = error_of([&] { loaded(loader); });
    EXPECT_TRUE(error.starts_with(code + ": ")) << error;
    EXPECT_NE(error.find(bad.address().to_text()), std::string::npos) << error;
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }
  /// Both, of a server that goes by this script.
  static void expect_left_and_told(const std::function<bool(const Turn&)>& script, const std::string& part) {
    ScriptedServer beside_another(scripted(script)), alone(scripted(script));
    expect_same_bytes_beside(beside_another);
    expect_error_alone(alone, "corrupt", part);
  }
};

TEST_F(HostileServer, HonestServer_GivesTheOraclesBytes) {
  ScriptedServer server(scripted());
  RemoteLoader loader(remote({server.address()}), options());
  EXPECT_EQ(loaded(loader), expected(options()));
  EXPECT_EQ(loaded(loader, {.epoch = 3}), expected(options(), {.epoch = 3}));
  EXPECT_EQ(loader.stats().worker_deaths, 0);
  EXPECT_EQ(server.connections(), 1) << "the connection of the first words is the one that batches come by";
}

bool send_block_of_another_key(const Turn& turn) {
  const Block wrong = copy_of(turn.block);
  auto* header = reinterpret_cast<BlockHeader*>(wrong->data());
  header->key.first += 1;
  wire::BatchAsked asked = turn.asked;
  if (asked.granted < wrong->size()) return false;  // asks for memory first, in order
  turn.send(wrong);
  return true;
}

TEST_F(HostileServer, BlockOfAnotherKey_IsNeverHandedOut) {
  ScriptedServer bad(scripted(send_block_of_another_key));
  expect_same_bytes_beside(bad);
}

TEST_F(HostileServer, BlocksOfAnotherKeyAlone_EndWithAnErrorThatNamesTheServer) {
  ScriptedServer bad(scripted(send_block_of_another_key));
  RemoteLoader loader(remote({bad.address()}), options());
  // The first batches lack memory and come in order; slots that are used again have it.
  const std::string error = error_of([&] {
    for (int epoch = 0; epoch < 3; ++epoch) loaded(loader, {.epoch = epoch});
  });
  EXPECT_TRUE(error.starts_with("corrupt: ")) << error;
  EXPECT_NE(error.find("wrong block"), std::string::npos) << error;
  EXPECT_NE(error.find(bad.address().to_text()), std::string::npos) << error;
}

bool send_ungranted_block(const Turn& turn) {
  turn.send(turn.block);
  return true;
}

TEST_F(HostileServer, BlockThatWasNotGranted_EndsTheConnection) {
  expect_left_and_told(send_ungranted_block, "are granted");
}

bool send_garbage_size(const Turn& turn) {
  turn.send(wire::FrameType::kSize, wire::to_bytes(std::uint64_t{1} << 60));
  return true;
}

TEST_F(HostileServer, SizeThatNoSlotHas_IsTheErrorOfTheBatch) {
  ScriptedServer bad(scripted(send_garbage_size));
  RemoteLoader loader(remote({bad.address()}), options());
  EXPECT_EQ(error_of([&] { loaded(loader); }).rfind("no space: ", 0), 0U);
}

bool send_frame_for_nobody(const Turn& turn) {
  turn.connection.send(wire::FrameType::kSize, turn.request + 1'000'000, wire::to_bytes(std::uint64_t{64}));
  return true;
}

TEST_F(HostileServer, AnswerToWhatNobodyAsked_EndsTheConnection) {
  expect_left_and_told(send_frame_for_nobody, "which nobody has made");
}

bool send_status_for_nobody(const Turn& turn) {
  constexpr std::uint64_t kQuestion = (std::uint64_t{1} << 63) - 1;  // the number that clients ask with
  turn.connection.send(wire::FrameType::kStatus, kQuestion, wire::to_bytes(std::string_view("{}")));
  return false;
}

TEST_F(HostileServer, StatusThatNobodyAskedFor_EndsTheConnection) {
  expect_left_and_told(send_status_for_nobody, "which was not asked for");
}

TEST_F(HostileServer, ServerThatClosesInsteadOfABatch_LosesNone) {
  ScriptedServer bad(scripted([](const Turn& turn) {
    if (turn.number % 3 != 2) return false;
    turn.connection.close();
    return true;
  }));
  expect_same_bytes_beside(bad);
}

TEST_F(HostileServer, ServerThatIsLostNowAndThenAlone_LosesNone) {
  ScriptedServer bad(scripted([](const Turn& turn) {
    if (turn.number % 12 != 11) return false;
    turn.connection.close();
    return true;
  }));
  RemoteLoader loader(remote({bad.address()}), options());
  for (int epoch = 0; epoch < 3; ++epoch)
    EXPECT_EQ(loaded(loader, {.epoch = epoch}), expected(options(), {.epoch = epoch}));
  EXPECT_GT(loader.stats().worker_deaths, 0);
}

TEST_F(HostileServer, SilentServer_IsLeftAfterTheBatchDeadline) {
  ScriptedServer silent(scripted([](const Turn&) { return true; }));
  ScriptedServer honest(scripted());
  RemoteExecution both = remote({silent.address(), honest.address()});
  both.batch_deadline = 3'000ms;  // longer than the honest one ever needs
  RemoteLoader loader(both, options());
  EXPECT_EQ(loaded(loader), expected(options()));
  EXPECT_GT(silent.batches(), 0);
}

TEST_F(HostileServer, SilentServerAlone_IsAnErrorThatNamesItsDeadline) {
  ScriptedServer silent(scripted([](const Turn&) { return true; }));
  RemoteExecution one = remote({silent.address()});
  one.batch_deadline = 150ms;
  RemoteLoader loader(one, options());
  const std::string error = error_of([&] { loaded(loader); });
  EXPECT_NE(error.find("batch_deadline"), std::string::npos) << error;
  EXPECT_NE(error.find(silent.address().to_text()), std::string::npos) << error;
}

/// Fails the batch from this position on; each one where it is -1.
std::function<bool(const Turn&)> fail_batch(ErrorCode code, std::int64_t first, std::atomic<int>& times) {
  return [code, first, &times](const Turn& turn) {
    if (first >= 0 && turn.asked.first != first) return false;
    ++times;
    wire::Refusal refusal;
    refusal.code = code;
    refusal.text = "row 7 is damaged";
    turn.send(wire::FrameType::kFailed, wire::to_bytes(refusal));
    return true;
  };
}

TEST_F(HostileServer, FailedBatch_IsTheErrorInItsTurn_AndTheOthersCome) {
  const std::vector<std::string> want = expected(options());
  std::atomic<int> failed{0};
  ScriptedServer server(scripted(fail_batch(ErrorCode::kCorrupt, 32, failed)));
  RemoteLoader loader(remote({server.address()}), options());
  loader.begin_epoch(0);
  EXPECT_EQ(line_of(loader.next()->view()), want[0]);
  EXPECT_EQ(line_of(loader.next()->view()), want[1]);
  EXPECT_EQ(error_of([&] { loader.next(); }),
            "corrupt: server " + server.address().to_text() + ": row 7 is damaged");
  EXPECT_EQ(failed, 3) << "what was wrong could have passed by itself";
  EXPECT_EQ(loader.stats().worker_deaths, 0);
}

TEST_F(HostileServer, FaultOfOneServer_LeavesTheBatchesToTheOther) {
  for (const ErrorCode code :
       {ErrorCode::kIo, ErrorCode::kNoSpace, ErrorCode::kNotFound, ErrorCode::kPeerDied}) {
    std::atomic<int> failed{0};
    ScriptedServer ill(scripted(fail_batch(code, -1, failed)));
    expect_same_bytes_beside(ill);
    EXPECT_GT(failed, 0);
  }
}

TEST_F(HostileServer, BatchThatAllServersFail_IsTheErrorInItsTurn) {
  std::atomic<int> failed{0};
  ScriptedServer one(scripted(fail_batch(ErrorCode::kNoSpace, 32, failed))),
      two(scripted(fail_batch(ErrorCode::kNoSpace, 32, failed)));
  RemoteLoader loader(remote({one.address(), two.address()}), options());
  loader.begin_epoch(0);
  ASSERT_TRUE(loader.next() && loader.next());
  const std::string error = error_of([&] { loader.next(); });
  EXPECT_TRUE(error.starts_with("no space: server 127.0.0.1:")) << error;
  EXPECT_EQ(failed, 2);
}

// Who owns a partition is away for all of them, and each would wait as long again.
TEST_F(HostileServer, BatchThatServersHaveWaitedForInVain_IsTheErrorAfterTwo) {
  for (const std::size_t count : {1, 2, 4}) {
    std::atomic<int> failed{0};
    std::vector<std::unique_ptr<ScriptedServer>> servers;
    std::vector<wire::Address> addresses;
    for (std::size_t i = 0; i < count; ++i) {
      servers.push_back(
          std::make_unique<ScriptedServer>(scripted(fail_batch(ErrorCode::kPeerDied, 32, failed))));
      addresses.push_back(servers.back()->address());
    }
    RemoteLoader loader(remote(addresses), options());
    loader.begin_epoch(0);
    ASSERT_TRUE(loader.next() && loader.next());
    EXPECT_TRUE(error_of([&] { loader.next(); }).starts_with("peer died: server 127.0.0.1:"));
    EXPECT_EQ(failed, 2) << count << " servers";
  }
}

TEST_F(HostileServer, FailedBatchBesideAServerThatIsGone_IsAnError) {
  std::atomic<int> failed{0};
  const wire::Address gone = ScriptedServer(scripted()).address();
  ScriptedServer ill(scripted(fail_batch(ErrorCode::kIo, 32, failed)));
  RemoteLoader loader(remote({ill.address(), gone}), options());
  const std::string error = error_of([&] { loaded(loader); });
  EXPECT_NE(error.find(ill.address().to_text() + ": row 7 is damaged"), std::string::npos) << error;
  EXPECT_LE(failed, 3);
}

TEST_F(HostileServer, QuestionThatCannotBeServed_IsAskedOfNobodyElse) {
  std::atomic<int> failed{0};
  ScriptedServer one(scripted(fail_batch(ErrorCode::kInvalid, 0, failed))),
      two(scripted(fail_batch(ErrorCode::kInvalid, 0, failed)));
  RemoteLoader loader(remote({one.address(), two.address()}), options());
  loader.begin_epoch(0);
  EXPECT_NE(error_of([&] { loader.next(); }).find("row 7 is damaged"), std::string::npos);
  EXPECT_EQ(failed, 1);
}

TEST_F(HostileServer, DroppedBatch_IsAskedForAgain) {
  std::atomic<int> dropped{0};
  ScriptedServer server(scripted([&](const Turn& turn) {
    if (turn.number % 4 != 0) return false;
    ++dropped;
    turn.send(wire::FrameType::kDropped);
    return true;
  }));
  RemoteLoader loader(remote({server.address()}), options());
  EXPECT_EQ(loaded(loader), expected(options()));
  EXPECT_GT(dropped, 0);
}

TEST_F(HostileServer, ServerThatDropsForEver_IsAnError) {
  ScriptedServer server(scripted([](const Turn& turn) {
    turn.send(wire::FrameType::kDropped);
    return true;
  }));
  expect_error_alone(server, "peer died", "drops");
}

TEST_F(HostileServer, DrainingServer_DeliversWhatItPromised_AndOthersGiveTheRest) {
  ScriptedServer leaving(scripted()), staying(scripted());
  RemoteLoader loader(remote({leaving.address(), staying.address()}), options());
  loader.begin_epoch(0);
  std::vector<std::string> got{line_of(loader.next()->view())};
  leaving.drain();
  while (const std::optional<Batch> batch = loader.next()) got.push_back(line_of(batch->view()));
  EXPECT_EQ(got, expected(options()));
  EXPECT_EQ(loader.stats().worker_deaths, 0) << "nothing was lost, so nothing is made again";
}

TEST_F(HostileServer, OtherRules_AreRefusedAtOnce) {
  ScriptedServer::Options other = scripted();
  other.offer.rules = BatchSpec::kRules + 1;
  ScriptedServer server(other);
  const std::string error = error_of([&] { RemoteLoader(remote({server.address()}), options()); });
  EXPECT_TRUE(error.starts_with("version: ")) << error;
  EXPECT_NE(error.find("rules"), std::string::npos) << error;
  EXPECT_NE(error.find(server.address().to_text()), std::string::npos) << error;
}

TEST_F(HostileServer, OtherRulesAtOneOfTwo_AreNotMixedIn) {
  ScriptedServer::Options other = scripted();
  other.offer.rules = BatchSpec::kRules + 1;
  ScriptedServer newer(other), same(scripted());
  RemoteLoader loader(remote({newer.address(), same.address()}), options());
  EXPECT_EQ(loaded(loader), expected(options()));
  EXPECT_EQ(newer.batches(), 0);
}

TEST_F(HostileServer, WrongToken_IsRefusedAtOnce) {
  ScriptedServer server(scripted());
  RemoteExecution wrong = remote({server.address()});
  wrong.token = "some-other-token-of-tests";
  const std::string error = error_of([&] { RemoteLoader(wrong, options()); });
  EXPECT_NE(error.find("token"), std::string::npos) << error;
  EXPECT_EQ(error.find(wrong.token), std::string::npos) << "a token is never printed";
  EXPECT_EQ(server.connections(), 0);
}

TEST_F(HostileServer, NobodyThere_IsATimeoutThatNamesEach) {
  std::vector<wire::Address> gone;
  for (int i = 0; i < 2; ++i) gone.push_back(ScriptedServer(scripted()).address());
  RemoteExecution nobody = remote(gone);
  nobody.connect_timeout = 200ms;
  const std::string error = error_of([&] { RemoteLoader(nobody, options()); });
  EXPECT_TRUE(error.starts_with("timeout: ")) << error;
  for (const wire::Address& address : gone)
    EXPECT_NE(error.find(address.to_text()), std::string::npos) << error;
}

TEST_F(HostileServer, SocketFileThatIsNotThereYet_IsTriedAgain) {
  std::vector<wire::Address> gone(2);
  gone[0].path = (folder() / "later.socket").string();
  gone[1].host = "no-such-host.invalid";
  gone[1].port = 1;
  RemoteExecution nobody = remote(gone);
  nobody.connect_timeout = 200ms;
  const std::string error = error_of([&] { RemoteLoader(nobody, options()); });
  EXPECT_TRUE(error.starts_with("timeout: ")) << error;
  for (const wire::Address& address : gone)
    EXPECT_NE(error.find(address.to_text()), std::string::npos) << error;
}

TEST_F(HostileServer, ServerNeverComesBack_IsATimeoutThatNamesIt) {
  auto server = std::make_unique<ScriptedServer>(scripted());
  const std::string address = server->address().to_text();
  RemoteExecution one = remote({server->address()});
  one.reconnect_deadline = 400ms;
  RemoteLoader loader(one, options());
  loader.begin_epoch(0);
  ASSERT_TRUE(loader.next());
  server.reset();
  const std::string error = error_of([&] {
    while (loader.next()) {
    }
  });
  EXPECT_TRUE(error.starts_with("timeout: ")) << error;
  EXPECT_NE(error.find("reconnect_deadline"), std::string::npos) << error;
  EXPECT_NE(error.find(address), std::string::npos) << error;
}

TEST_F(HostileServer, ServerComesBackWithOtherSeeds_IsNotMixedIn) {
  ScriptedServer::Options changed = scripted();
  std::atomic<bool> other{false};
  changed.refuse_open = [&](int) -> std::optional<Error> {
    if (!other) return std::nullopt;
    return Error(ErrorCode::kNotFound, "no dataset of this fingerprint");
  };
  ScriptedServer server(changed);
  RemoteExecution one = remote({server.address()});
  one.reconnect_deadline = 5'000ms;  // within which it is found again
  RemoteLoader loader(one, options());
  loader.begin_epoch(0);
  ASSERT_TRUE(loader.next());
  other = true;
  server.vanish();
  server.resume();
  const std::string error = error_of([&] {
    while (loader.next()) {
    }
  });
  EXPECT_NE(error.find("no dataset of this fingerprint"), std::string::npos) << error;
}

TEST_F(HostileServer, OtherNumberOfSeedsThanItsMetadataSays_IsRefused) {
  ScriptedServer::Options lying = scripted();
  lying.num_seeds = 7;
  ScriptedServer server(lying);
  EXPECT_TRUE(
      error_of([&] { RemoteLoader(remote({server.address()}), options()); }).starts_with("corrupt: "));
}

TEST_F(HostileServer, GivenSeeds_AreSentWhereTheServerHasNotGotThem) {
  LoaderOptions given = options();
  given.seeds = {{5, 399, 0, 5, 5, 7, 8, 9, 10, 5}};
  given.deal.batch_size = 4;
  ScriptedServer server(scripted());
  RemoteLoader first(remote({server.address()}), given);
  EXPECT_EQ(loaded(first), expected(given));
  RemoteLoader second(remote({server.address()}), given);
  EXPECT_EQ(loaded(second), expected(given));
  EXPECT_EQ(server.uploads(), 1) << "the second found them there";
}

TEST_F(HostileServer, LeavingAnEpoch_CancelsWhatWasAskedFor) {
  ScriptedServer slow(
      scripted([](const Turn& turn) { return turn.asked.epoch == 0 && turn.asked.first > 0; }));
  RemoteLoader loader(remote({slow.address()}), options());
  loader.begin_epoch(0);
  ASSERT_TRUE(loader.next());
  EXPECT_EQ(loaded(loader, {.epoch = 1}), expected(options(), {.epoch = 1}));
  EXPECT_GT(slow.cancels(), 0);
  EXPECT_EQ(loader.stats().worker_deaths, 0);
}

TEST_F(HostileServer, StreamEndsWhileItsServerIsSilent) {
  ScriptedServer silent(scripted([](const Turn&) { return true; }));
  {
    RemoteLoader loader(remote({silent.address()}), options());
    loader.begin_epoch(0);
  }
  EXPECT_EQ(silent.connections(), 1);
}

}  // namespace
}  // namespace hopfeed
