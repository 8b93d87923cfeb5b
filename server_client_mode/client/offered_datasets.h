// Checks whether the servers of a client mean the same dataset by its name: while they are updated one after
// the other, they do not.
#pragma once
#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <string>
#include <vector>

#include "core/dataset/dataset_meta.h"
#include "server_client_mode/client/first_contact.h"

namespace hopfeed {

/// Asks those of `servers` that answer within a second what they offer, beside the one that has given `meta`.
/// Throws kInvalid, naming both, where another has a different dataset under the same name. Where the dataset
/// was asked for by its fingerprint, it is told in a line of `remote.note`.
void check_offered(boost::asio::io_context& context, const RemoteExecution& remote, const Caller& caller,
                   const std::vector<std::size_t>& servers, const FirstContact& first,
                   const DatasetMeta& meta);

/// Returns the fingerprint of what a server has under the name of `meta`, where it has not got `meta` itself;
/// "" elsewhere.
std::string other_under_the_name(const wire::Offer& offer, const DatasetMeta& meta);

}  // namespace hopfeed
