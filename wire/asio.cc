// The parts of Boost.Asio that are no templates, compiled once for all who use it
// (BOOST_ASIO_SEPARATE_COMPILATION).
#include <boost/asio/impl/src.hpp>
