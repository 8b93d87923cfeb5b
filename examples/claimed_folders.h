// Folders that a run is about to write results to. Where it fails before it has written anything, what it has
// made there goes with it: else the folders would be a run's that nobody goes on with, and be refused to the
// next one.
#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace hopfeed {

class ClaimedFolders {
 public:
  /// Nothing is made yet. `layers` is the folder of layers between, within one of those that are added, or
  /// elsewhere; there it stays.
  explicit ClaimedFolders(std::filesystem::path layers) : layers_(std::move(layers)) {}
  ClaimedFolders(const ClaimedFolders&) = delete;
  ClaimedFolders& operator=(const ClaimedFolders&) = delete;
  /// Removes what was made, unless there is a file of results or of layers by now, or keep() was called. The
  /// locks of the folders have to be held still.
  ~ClaimedFolders();

  /// Notes what there is in a folder before it is opened for results of a name.
  void add(const std::filesystem::path& folder, const std::string& name);
  /// Another run has the folder that was added last.
  void forget_last() { folders_.pop_back(); }
  void keep() { folders_.clear(); }

 private:
  struct Folder {
    std::filesystem::path path;
    std::string name;
    std::vector<std::filesystem::path> made;  // what was not there, the innermost first
  };

  const std::filesystem::path layers_;
  std::vector<Folder> folders_;
};

}  // namespace hopfeed
