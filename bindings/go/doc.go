// Package pando is an embedded transactional key-value store: ordered tables in one directory, with serializable
// transactions and snapshots.
//
// It calls the C library of Pando, which scripts/go or bindings/c/install of its repository build. Set CGO_CFLAGS and
// CGO_LDFLAGS if it is not in a directory that the C compiler searches.
//
//	db, err := pando.Open("fruit.pando", nil)
//	fruit, err := db.Table("fruit")
//	err = db.Update(func(tx *pando.Tx) error { // Runs again after a conflict.
//		return tx.Put(fruit, []byte("apple"), []byte("red"))
//	})
//	err = db.View(func(s *pando.Snapshot) error {
//		for record, err := range s.Scan(fruit, pando.Range{Prefix: []byte("a")}) {
//			if err != nil {
//				return err
//			}
//			fmt.Printf("%s is %s\n", record.Key, record.Value)
//		}
//		return nil
//	})
package pando
