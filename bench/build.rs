//! Compiles what stands between this program and BerkeleyDB, if that takes part.

fn main() {
    println!("cargo:rerun-if-changed=src/paper/stores/bdb.c");
    #[cfg(feature = "peers")]
    {
        cc::Build::new().file("src/paper/stores/bdb.c").compile("esker_bench_bdb");
        println!("cargo:rustc-link-lib=db-5.3");
    }
}
