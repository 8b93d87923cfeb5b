// A RunFolder is the folder of one inference on one machine: hopfeed-server --results serves it. While a run
// computes there it holds the folder's lock; who reads the folder tells by it whether a row that is not there
// is still to come.
//
//   .lock       held by the run (an OFD lock of the whole file, which the kernel lets go of with its process)
//   run.json    which run the rows are of
//   layers/     rows of this machine's partitions (layer_files.h)
//   boundary/   rows of other machines' partitions, as this one has fetched them
//   fetched/    <run>/<table>/<node type>.p<partition>: who has that partition needs no more of the table's
//               rows; <run>/<table>/<node type>.removed: they are gone
//   left.json   of a run that is over: who has not yet fetched what; the last note about it removes the rows
//   ended.json  the last run that is over and of which nothing is left
#pragma once
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/base/owned_fd.h"
#include "results/layer_files.h"

namespace hopfeed {

/// What becomes of rows that another run, which is over, has left in the folder for machines that have yet to
/// fetch them: they stay, and the folder is not taken; or they go, since all machines are past that run.
enum class LeftRows : std::uint8_t { kStay, kGo };

class RunFolder {
 public:
  /// Takes the folder for a run, which goes on with what an earlier process of the same run left, and removes
  /// what another run left. `about` is a JSON object, for people, of what decides the run. Makes the folder.
  /// Throws kBusy where another process computes there, or rows are left (LeftRows), kInvalid where the
  /// folder has files that are none of a run, kIo or kNoSpace.
  RunFolder(std::filesystem::path folder, RunId run, const std::string& about, Sync sync = Sync::kYes,
            LeftRows left = LeftRows::kStay);

  const std::filesystem::path& path() const { return folder_; }
  RunId run() const { return layers_.run; }
  /// Returns whether nothing of an earlier process of the run was there.
  bool is_new() const { return is_new_; }
  const LayerFolder& layers() const { return layers_; }
  const LayerFolder& boundary() const { return boundary_; }
  /// Returns whether whoever has the partition has fetched what it needs of the table.
  bool fetched(const LayerName& name, int partition) const;
  /// Removes a table's rows, which nobody needs any more.
  void remove(const LayerName& name) const;
  /// Ends the run: removes all that it has made. The lock stays held.
  void clear();
  /// Ends a run whose rows of these tables are still to be fetched by who has these partitions: once the lock
  /// is free, remove_if_fetched() removes them behind the last note.
  void leave(const std::vector<LayerName>& tables, const std::vector<int>& partitions) const;

 private:
  std::filesystem::path folder_;
  OwnedFd lock_;
  LayerFolder layers_, boundary_;
  bool is_new_ = false;
};

/// RunState says what a folder has to do with a run, to who only reads it.
enum class RunState : std::uint8_t {
  kComputing,      // a process computes it there now
  kNobody,         // it is the folder's run, or the folder has none, and nobody computes
  kAnother,        // a process computes another run there now
  kAnotherIsOver,  // the folder has what another run has left, and nobody computes
};
/// Does not wait, and takes no lock. Throws kNotFound without the folder, kCorrupt.
RunState run_state(const std::filesystem::path& folder, RunId run);
/// Returns whether the folder is the run's now; whether the run has ended here, and left nothing.
bool has_run(const std::filesystem::path& folder, RunId run);
bool has_ended(const std::filesystem::path& folder, RunId run);
/// Notes that whoever has the partition needs no more of a table's rows (RunFolder::fetched).
void note_fetched(const std::filesystem::path& folder, RunId run, const LayerName& name, int partition);
/// Returns whether a table's rows are gone since nobody needed them any more.
bool was_removed(const std::filesystem::path& folder, RunId run, const LayerName& name);
/// Removes what a run that is over has left, once all have fetched it. Returns whether nothing is left.
bool remove_if_fetched(const std::filesystem::path& folder);
/// Waits until other machines have fetched what another run than this one, which is over, has left them in
/// the folder, but not longer than the deadline. `while_waiting` is called often; what it throws leaves.
void wait_until_fetched(const std::filesystem::path& folder, RunId run, std::chrono::milliseconds deadline,
                        const std::function<void()>& while_waiting = {});
/// Returns the rows of a folder's run, for who only reads them.
LayerFolder layers_of(const std::filesystem::path& folder, RunId run);

}  // namespace hopfeed
