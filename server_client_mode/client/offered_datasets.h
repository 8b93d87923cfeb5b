// Checks whether the servers of a client mean the same dataset: while they are updated one after the other,
// or where none is asked for by name, they may not.
#pragma once
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "core/dataset/dataset_meta.h"
#include "server_client_mode/client/first_contact.h"

namespace hopfeed {

/// Asks those of `servers` that answer within a second what they offer, beside the one that has given `meta`.
/// Throws kInvalid, naming both, where another has a different dataset under the same name, or a different
/// one and no name was asked for. Where the dataset was asked for by its fingerprint, it is told in a line of
/// `remote.note`.
void check_offered(boost::asio::io_context& context, const RemoteExecution& remote, const Caller& caller,
                   const std::vector<std::size_t>& servers, const FirstContact& first,
                   const DatasetMeta& meta);

/// Returns those servers that a rank with these ones of its own, of so many, compares: the next in the ring
/// too, so that what one rank gets is compared with what the next one gets, and no rank asks all.
std::vector<std::size_t> compared_servers(std::vector<std::size_t> own, std::size_t count);

}  // namespace hopfeed
