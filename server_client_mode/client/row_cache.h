// Gets the feature rows that a client holds (cache/held_rows.h): how many, and where they come from. Streams
// of one process that ask for the same have one copy, as those that train and validate do.
#pragma once
#include <boost/asio/io_context.hpp>
#include <memory>

#include "cache/held_rows.h"
#include "core/batch/batch_options.h"
#include "core/dataset/dataset_meta.h"
#include "server_client_mode/client/first_contact.h"
#include "server_client_mode/client/machine_rows.h"
#include "server_client_mode/client/remote_execution.h"
#include "server_client_mode/client/server_talk.h"

namespace hopfeed {

/// The share to hold: as many rows as are wanted and fit, or as many as the copy has that is there. Throws
/// kInvalid where remote.cache.bytes have no room for one.
AgreedShare share_to_hold(const RemoteExecution& remote, const DatasetMeta& meta,
                          const BatchOptions& options);

/// Returns the rows of job.held: the copy of this process, or of the ranks of this machine (machine_rows.h),
/// or from the server where the job is open. Where that one is lost on the way, the job is opened at another
/// one whose rows are in the same order, `first` from then on. Null where nothing is to be held: also where
/// NaN is looked for and they have some, since it has to be found in each batch's turn. Throws what the
/// server refuses, or what the first one ended with where no other can take its place.
std::shared_ptr<const HeldRows> held_rows(wire::asio::io_context& context, const Caller& caller,
                                          FirstContact& first, const RemoteExecution& remote, RemoteJob& job,
                                          const DatasetMeta& meta, std::shared_ptr<const void> agreement);

}  // namespace hopfeed
