// See device_stream.h.
#include "worker_mode/device_stream.h"

#include <unistd.h>

#include <utility>

#include "core/base/error.h"
#include "core/base/quiet_thread.h"
#include "gpu/memory/setup_times.h"
#include "stream/batch_memory.h"
#include "stream/slot_fillers.h"
#include "stream/slot_keeper.h"
#include "worker_mode/batch_filler.h"

namespace hopfeed {
namespace {

constexpr std::chrono::milliseconds kNap{20};  // the longest that the end of the stream goes unnoticed

}  // namespace

std::unique_ptr<DeviceStream> DeviceStream::open(const LoaderOptions& options,
                                                 std::shared_ptr<gpu::DeviceRoom> room) {
  return std::unique_ptr<DeviceStream>(new DeviceStream(options, std::move(room), open_parts(options)));
}

DeviceStream::DeviceStream(const LoaderOptions& options, std::shared_ptr<gpu::DeviceRoom> room,
                           LoaderParts parts)
    : ChannelStream(options, parts.spec, parts.dataset->meta(), parts.source->size()),
      room_(std::move(room)),
      parts_(std::move(parts)) {
  const std::size_t worst =
      parts_.source->maker(*parts_.dataset, options.batch).max_block_bytes(options.deal.batch_size);
  make_channel(options, {.worst_block = worst, .scratch = {}, .available = room_->available()},
               {.makers = "thread that makes batches"},
               [this](std::size_t size) { return room_->slots(size); });
  maker_ =
      room_->maker(*parts_.dataset, *parts_.source, options.batch,
                   {.place = options.execution.gpu.graph_mode == GraphMode::kCuda ? gpu::GraphPlace::kDevice
                                                                                  : gpu::GraphPlace::kHost,
                    .cache = options.execution.gpu.row_cache(),
                    .graph_cache = options.execution.gpu.graph_cache()},
                   host()->memory());
  maker_->bound_scratch(batch_budget(memory_of_worker(options)));
  SlotKeeper(host()).welcome(0);  // the thread is the one filler there ever is
  host()->view().worker(0).pid.store(static_cast<std::uint32_t>(getpid()));
  thread_ =
      start_quiet_thread("cannot start a thread that makes batches", [this, options] { fill(options); });
  await_ready(*host(), options.execution.start_deadline);
}

DeviceStream::~DeviceStream() {
  if (!host()->in_own_process()) {  // a fork has none of the threads
    thread_.detach();
    return;
  }
  host()->terminate();
  thread_.join();
  host()->close();
}

void DeviceStream::fill(const LoaderOptions& options) {
  try {
    WorkerPort port(host()->view(), 0, /*doorbell=*/-1);
    BatchFiller filler(port, *maker_, {.seed = options.seed, .check_finite = options.execution.check_finite});
    port.note_gpu_setup(gpu::setup_times());
    port.report_ready();
    while (!port.terminating()) {
      host()->service();
      if (!filler.under_way()) {
        const std::optional<Claim> claim = port.claim(kNap);
        if (!claim) continue;
        filler.begin(*claim);
        filler.ask();
      } else if (!filler.try_finish()) {
        port.await_grant(filler.claim(), filler.bytes(), kNap);
      }
    }
  } catch (const Error& error) {
    host()->fail(error);
  } catch (const std::exception& error) {
    host()->fail(Error(ErrorCode::kIo, std::string("the thread that makes batches: ") + error.what()));
  }
}

}  // namespace hopfeed
