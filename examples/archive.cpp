// Adds two members of an .npz archive, and writes sum and first member to another one.
//
//   archive IN.npz A B OUT.npz

#include <iostream>
#include <tandem/tandem.hpp>
namespace td = tandem;

int main(int argc, char** argv) try {
    if (argc != 5) {
        std::cerr << "usage: archive IN.npz A B OUT.npz\n";
        return 2;
    }
    td::Device device = td::open_device();
    td::Queue queue(device);

    td::npz::Archive archive = td::npz::Archive::open(argv[1]);  // reads the directory; members when they are asked for
    for (const td::npz::Member& member : archive.members())
        std::cout << member.name << (member.compressed ? ": compressed\n" : ": stored\n");
    td::Array a = td::npy::map(device, archive.member(argv[2]));  // in the archive itself, where it is stored
    td::Array b = td::npy::load(device, archive.member(argv[3]));
    td::Array sum = td::empty_like(b);
    td::add(queue, a, b, sum);
    td::npz::save(queue, {{"a", a}, {"sum", sum}}, argv[4]);
    std::cout << a.residency() << "\n";
} catch (const td::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
}
